package installed

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

const acrossConf = "log mandatory on 100 msec { pmcd.numagents kernel.all.load proc.nprocs kvm mem.util jbd2 }\n"

// acrossScript records an archive while pmcd reads its configuration again, has
// an agent more and one less, and is replaced by another pmcd.
const acrossScript = `
cat >conf
size() { stat -c %s a.0 2>/dev/null || echo 0; }
more() { # records
	want=$(($(size) + 30000))
	while [ $(size) -lt $want ] && kill -0 $pid; do pmsleep 0.05; done
}
PMCD_RECONNECT_TIMEOUT=1 pmlogger -c conf -l log a &
pid=$!
more
` + hup + `more
for s in Install Remove; do
	(cd /var/lib/pcp/pmdas/trivial && ./$s) </dev/null >/dev/null
	more
done
/etc/init.d/pmcd restart >/dev/null 2>&1
more
kill -TERM $pid
wait $pid
echo "exit status $?"
pmlogcheck a
echo "exit status $?"
grep -a pmlogger: log
echo "== records"
pmdumplog a
`

// An across is what an archive shows of the life of pmcd.
type across struct {
	story   string        // what pmlogger says
	headers []string      // numbers of metrics in a record, and marks
	gap     time.Duration // longest time between two records of one pmcd
	restart time.Duration // time between those around a mark
	marks   int           // one for pmcd's end, one for its own
	records int
}

var acrossHeader = regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d\.\d+) +(<mark>|\d+ metrics?)$`)

func acrossOf(t *testing.T, m *peer.Machine) (a across) {
	run := func(script string) string {
		t.Helper()
		o, err := m.Run(t.Context(), "/var/tmp", peer.Client{Args: []string{"sh", "-c", script}, Stdin: acrossConf})
		if err != nil || o.Code != 0 {
			t.Fatalf("%s: %v\n%s\n%s", script, err, o, m.Log())
		}
		return o.Stdout
	}
	run(rc("start"))
	head, records, _ := strings.Cut(run(acrossScript), "== records")
	run(rc("stop"))
	// Dates, the process, and whether a request was on its way at the end.
	a.story = regexp.MustCompile(`(?m)( at \w{3} .*|^\[.*\] \S+|^pmlogger: Error: .*\n)`).ReplaceAllString(head, "")
	headers := map[string]bool{}
	var last time.Time
	marked := false
	for _, h := range acrossHeader.FindAllStringSubmatch(records, -1) {
		at, err := time.Parse("15:04:05.999999", h[1])
		if err != nil {
			t.Fatal(err)
		}
		headers[h[2]] = true
		if h[2] == "<mark>" {
			marked = true
			a.marks++
			continue
		}
		a.records++
		if !last.IsZero() {
			between := (at.Sub(last) + 24*time.Hour) % (24 * time.Hour) // there are no dates
			if marked {
				a.restart = max(a.restart, between)
			} else {
				a.gap = max(a.gap, between)
			}
		}
		last, marked = at, false
	}
	a.headers = slices.Sorted(maps.Keys(headers))
	return a
}

// TestPeerPmloggerAcross has a pmlogger that outlives reloads and a pmcd: the
// archive has no mark of a gap that it would not have with C pmcd. How long the gaps
// are depends on the machine, and is logged.
func TestPeerPmloggerAcross(t *testing.T) {
	t.Parallel()
	var c, ours across
	archives := map[string]*across{peer.CPmcd: &c, peer.Must(peer.UnderTest())(t): &ours}
	machines := make(map[string]*peer.Machine)
	for path := range archives {
		machines[path] = peer.BootMachine(t, path)
	}
	t.Run("archives", func(t *testing.T) {
		for path, a := range archives {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				*a = acrossOf(t, machines[path])
			})
		}
	})
	t.Logf("C: %+v", c)
	t.Logf("ours: %+v", ours)
	if fmt.Sprint(ours.story, ours.headers, ours.marks) != fmt.Sprint(c.story, c.headers, c.marks) || c.marks != 2 {
		t.Errorf("pmlogger can tell them apart")
	}
}
