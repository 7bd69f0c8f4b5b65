package peertest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// logScript records what the configuration $0 names, in directory $1, and
// describes the metrics of which there are values.
const logScript = `
set -eu
rm -rf "$1" && mkdir "$1" && cd "$1"
pmlogger -h '{host}' -c "$0" -l log -T 3sec -t 1sec a
pmlogcheck a
pminfo -a a -dm $(pmprobe -a a | awk '$2 > 0 { print $1 }' | sort)
`

// onlyOne has values with one of the agents, for good reasons.
var onlyOne = re(`mem\.zoneinfo\.nr_free_pages` + // PCP's agent looks for another name
	`|kvm\..*` + // PCP's agent has 0 for what the kernel does not have
	`|mem\.vmstat\.nr_free_cma` + // is instant since PCP 7: see since7_test.go
	`|network\.interface\.(speed|baudrate)` + // it makes one of what the kernel does not know
	`|pmcd\.pmlogger\.note`) // is new in PCP 7.2

// testDefaultLog has pmlogger record what pmlogconf says about a host with
// PCP's agents.
func testDefaultLog(t *testing.T, p *peer.Pair) {
	conf := client("pmlogconf", "-c", "-h", "{host}", "default.conf")
	if o, err := p.C.Run(t.Context(), peer.Unix, conf); err != nil || o.Code != 0 {
		t.Fatal(o, err)
	}
	for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
		t.Run(tr.String(), func(t *testing.T) {
			t.Parallel()
			cl := client("sh", "-c", logScript, filepath.Join(p.C.Dir, "default.conf"), "log-"+tr.String())
			p.Compare(t, tr, cl, peer.Comparison{Split: logged(t, 400), Differences: differences})
		})
	}
}

// logged returns a split that has a record of each metric with values, except for those that
// are new in PCP 7. The test fails if there are less than least.
func logged(t *testing.T, least int) func(string) []peer.Record {
	return func(text string) (rs []peer.Record) {
		for _, r := range peer.Metrics(text) {
			if strings.TrimSpace(r.Lines[0]) == "" { // before the first metric
				continue
			}
			_, text, _ := strings.Cut(r.Lines[0], " PMID: ")
			id, err := pdu.ParsePMID(text)
			if err != nil {
				t.Errorf("no PMID in %q", r.Lines[0])
			}
			if !onlyOne.MatchString(r.Key) && !isNewSince7(id) {
				rs = append(rs, r)
			}
		}
		if len(rs) < least {
			t.Errorf("%d metrics are too few:\n%s", len(rs), text)
		}
		return rs
	}
}

// atopScript records what atop needs, which is a pmlogger's work, and looks at
// it.
const atopScript = `
set -eu
rm -rf atop
pcp -h '{host}' atop -w atop 10 2
for i in atop/*.index; do a=${i%.index}; done
pmlogcheck "$a"
pminfo -a "$a" -dm $(pmprobe -a "$a" | awk '$2 > 0 { print $1 }' | sort)
`

// rulesScript has pmie evaluate the default rules five times a second, and says
// of which the truth became known.
const rulesScript = `
set -eu
pmieconf -F -c -f rules
sed 's/^delta = .*/delta = 0.2 sec;/' rules >often
pmie -h '{host}' -c often -v -T 2sec |
awk -F: '/^[a-z_]+\.[a-z_]+:/ { known[$1] += /true|false/ } END { for (r in known) print r ": " (known[r] ? "known" : "unknown") }' |
sort
`

// htopScript has htop draw its screen on a terminal of tmux and prints that
// when there is a process, if there is one to see.
const htopScript = `
set -eu
term() { tmux -S "htop-$0" -f /dev/null "$@"; }
trap 'term kill-server' EXIT
term new-session -d -x 150 -y 30 "exec pcp -h '{host}' htop -C -U -p $1"
i=0
until term capture-pane -p | grep -q "$2"; do
	i=$((i+1)); [ $i -lt 300 ] || { term capture-pane -p; exit 1; }
	sleep 0.1
done
term capture-pane -p
`

// testHtop looks at htop's screen.
func testHtop(t *testing.T, p *peer.Pair, pid string) {
	testutil.NeedProgram(t, "tmux")
	for tr, row := range map[peer.Transport]string{peer.TCP4: "PID", peer.Unix: " sleep"} {
		t.Run(tr.String(), func(t *testing.T) {
			t.Parallel()
			cl := client("sh", "-c", htopScript, tr.String(), pid, row)
			p.Compare(t, tr, cl, peer.Comparison{Split: about(`\S`), Must: row, Default: peer.Shape})
		})
	}
}

// With nothing but our program on a host, what PCP does by default goes on.
func TestDefaults(t *testing.T) {
	p := tools(t)
	t.Run("pmlogger", func(t *testing.T) { testDefaultLog(t, p) })
	t.Run("htop", func(t *testing.T) { testHtop(t, p, idle(t)) })
	t.Run("atop", func(t *testing.T) {
		p.Compare(t, peer.TCP4, client("sh", "-c", atopScript), peer.Comparison{Split: logged(t, 100), Differences: differences})
	})
	t.Run("pmie", func(t *testing.T) {
		known := regexp.MustCompile(`(?m): known$`)
		split := func(text string) []peer.Record {
			if n := len(known.FindAllString(text, -1)); n < 10 {
				t.Errorf("%d rules are too few:\n%s", n, text)
			}
			return peer.Lines(text)
		}
		p.Compare(t, peer.TCP4, client("sh", "-c", rulesScript), peer.Comparison{Split: split, Void: pmieLate})
	})
}
