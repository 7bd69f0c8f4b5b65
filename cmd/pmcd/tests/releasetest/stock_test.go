package releasetest

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait for agents and for clients that sleep.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// builtIn removes the files of all agents that Debian's pmcd.conf names, so that our pmcd
// uses those that it has built in.
const builtIn = `cd /var/lib/pcp/pmdas && rm $(grep -Eo '[a-z0-9]+/pmda[a-z0-9_]+(\.so)?([[:space:]]|$)' /etc/pcp/pmcd/pmcd.conf | sort -u)`

// machines are PCP 6.3.8 as it is, and our pmcd in the same installation.
func machines(t *testing.T, before string) (c, ours *peer.Machine) {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	c, ours = peer.BootRelease(t, peer.Trixie, ""), peer.BootRelease(t, peer.Trixie, path)
	if before != "" {
		if o := run(t, ours, before); o.Code != 0 {
			t.Fatal(o)
		}
	}
	c.Start(t)
	ours.Start(t)
	// Ours answers before all agents have finished their start.
	if !peer.Until(peer.Hangs, func() bool {
		return strings.Count(run(t, ours, "pminfo -f pmcd.agent.status").Stdout, "] value 0\n") == 9
	}) {
		t.Error(run(t, ours, "pminfo -f pmcd.agent.status"))
	}
	return c, ours
}

func shell(command string) peer.Client { return peer.Client{Args: []string{"sh", "-c", command}} }

func run(t *testing.T, m *peer.Machine, command string) peer.Output {
	t.Helper()
	o, err := m.Run(t.Context(), "/", shell(command))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// nameSpace are all names but those of processes, at the top.
const nameSpace = "$(pminfo | grep -Ev '^(hot)?proc' | cut -d. -f1 | sort -u)"

// TestPeerStock serves the name space of PCP 6.3.8 with that release's agents. The
// daemon must not be seen: only its own metrics differ.
func TestPeerStock(t *testing.T) {
	t.Parallel()
	c, ours := machines(t, "")
	check := func(command string, cmp peer.Comparison) {
		t.Run(command, func(t *testing.T) {
			cmp.Status, cmp.Differences, cmp.Must = peer.AnyStatus, differences, "nprocs"
			peer.CompareMachines(t, c, ours, "/", shell(command), cmp)
		})
	}
	check("pminfo", peer.Comparison{Split: peer.Lines})
	check("pminfo -dmM", peer.Comparison{Split: peer.Metrics})
	check("pminfo -tT", peer.Comparison{Split: peer.Metrics, Rewrite: withoutTexts})
	check("pminfo -ls "+nameSpace, peer.Comparison{Split: peer.Metrics, Rewrite: withoutSeries, Rules: comeAndGo})
	check("pminfo -l proc hotproc", peer.Comparison{Split: peer.Metrics, Rules: comeAndGo})
	check("pminfo -I "+nameSpace, peer.Comparison{Split: peer.Metrics, Rules: comeAndGo})
	check("pminfo -f "+nameSpace, peer.Comparison{Split: peer.Metrics, Rewrite: withoutNumbers, Default: peer.Set, Rules: ofDaemon})
}

func key(s string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + s + `)$`) }

var (
	comeAndGo = []peer.Rule{
		{Key: key(`(cgroup|proc|hotproc)\..*`), How: peer.Set, Why: "each machine has its processes"},
		{Key: key(`pmcd\.(client|pmlogger|pmie)\..*`), How: peer.Presence, Why: "clients are numbered in the order they come"},
	}
	ofDaemon = []peer.Rule{
		{Key: key(`pmcd\.(build|client\..*)`), How: peer.Presence, Why: "each daemon names itself, and numbers clients in the order they come"},
	}
	// differences are those that docs/compatibility.md lists.
	differences = []*peer.Difference{
		{Key: key(`pmcd\.version`), C: "6.3.8", Ours: "7.2.1", Why: "says whose behaviour we have"},
		{Key: key(`pmcd\.control\.debug`), C: "Data Type: 32-bit int ", Ours: "Data Type: string ", Why: "names of options since 7.2"},
		{Key: key(`pmcd\.control\.debug`), C: "    value 0", Ours: `    value ""`, Why: "names of options since 7.2"},
	}
)

var (
	ownMetric = regexp.MustCompile(`^(pmcd\.|InDom: 2\.)`)
	oneline   = regexp.MustCompile(`\[[^][]+\]$`)
	number    = regexp.MustCompile(`value -?\d[-+.\de]*$`)
	series    = regexp.MustCompile(`[Ss]eries:? [0-9a-f]{40}$`)
)

// withoutTexts takes the texts of the daemon's own metrics away, which are in
// our words.
func withoutTexts(r peer.Record) peer.Record {
	if ownMetric.MatchString(r.Key) {
		r.Lines = []string{oneline.ReplaceAllString(r.Lines[0], "[TEXT]")}
	}
	return r
}

// withoutSeries takes away the series of a metric whose descriptor differs.
func withoutSeries(r peer.Record) peer.Record {
	if r.Key == "pmcd.control.debug" {
		for i, l := range r.Lines {
			r.Lines[i] = series.ReplaceAllString(l, "series")
		}
	}
	return r
}

// withoutNumbers makes all values that are numbers alike.
func withoutNumbers(r peer.Record) peer.Record {
	if !strings.HasPrefix(r.Key, "pmcd.feature.") {
		for i, l := range r.Lines {
			r.Lines[i] = number.ReplaceAllString(l, "value 0")
		}
	}
	return r
}
