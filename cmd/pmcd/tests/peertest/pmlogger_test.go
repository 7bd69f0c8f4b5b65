package peertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

const pmloggerConf = `
log mandatory on once { hinv.ncpu pmcd.version hinv.machine }
log mandatory on 100 msec {
	sample.long sample.ulong sample.longlong sample.ulonglong
	sample.float sample.double sample.string sample.aggregate
	sample.bin sample.secret sample.event.records sample.event.highres_records
	sample.bad.unknown sample.bad.novalues
	kernel.all.load kernel.percpu.cpu.user
	simple.now [ "sec" "min" ]
	simple.color
	no.such kvm.exits
}
log advisory on 200 msec { mem.util.free disk.all }
`

// pmloggerScript records an archive and then looks at it in all ways. Each
// look begins with a line "== NAME". Names are sorted: which comes first, and
// which parameters of events come at all, depends on how often pmlogger comes
// round.
const pmloggerScript = `
set -u
rm -rf archive && mkdir archive && cd archive
cat >conf
pmlogger -h '{host}' -c conf -l log -T 700msec a
echo "exit status $?"
echo "== pmlogcheck"
pmlogcheck a
echo "exit status $?"
echo "== log"
grep -v '^Archive\|^preprocessor' log
echo "== label"
pmdumplog -L a
echo "== descriptors"
pmdumplog -d a | sed -n '/PMID/,$p' | paste - - - | grep -v 'sample.event.\(type\|param\)' | sort
echo "== instances and labels"
pmdumplog -i -e a
echo "== text"
pmdumplog -t a
echo "== names"
pminfo -a a | sort
pmprobe -a a -I | sort
echo "== values"
pmprobe -a a -v | sort
echo "== records"
pmdumplog a
`

// TestPmlogger compares archives recorded from the two daemons.
func TestPmlogger(t *testing.T) {
	cl := client("/bin/sh", "-c", pmloggerScript)
	cl.Stdin = pmloggerConf
	compare(t, cl, peer.Comparison{
		Split:       looks,
		Differences: differences,
		Status:      peer.AnyStatus, // of the last look only
		Rules: slices.Concat([]peer.Rule{
			{Key: re("log|label"), How: peer.Shape, Why: "dates and process ids"},
			{Key: re("instances and labels|text|records"), How: peer.Set, Why: "how often pmlogger comes round in a given time is a matter of chance"},
			{Key: re(`sample\.event\.(type|param_.*)`), How: peer.Set, Why: "depends on how often pmlogger comes round"},
			{Key: re(`sample\.event\..*`), How: peer.Presence, Why: "the archive ends at another event"},
		}, moving),
	})
}

// looks makes each look a record, and each line of those that print a line for
// each metric.
func looks(text string) []peer.Record {
	var rs []peer.Record
	for i, part := range strings.Split(text, "\n== ") {
		name, body := "pmlogger", part
		if i > 0 {
			name, body, _ = strings.Cut(part, "\n")
		}
		if name == "names" || name == "values" {
			rs = append(rs, peer.Lines(body)...)
			continue
		}
		rs = append(rs, peer.Record{Key: name, Lines: strings.Split(body, "\n")})
	}
	return rs
}
