package installed

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// An installStep is a command on a machine.
type installStep struct {
	name  string
	agent string // the command runs in this agent's directory
	args  []string
	stdin string // answers to the questions of the script
	env   []string
	want  string // regular expression of a line of its output
}

var installSteps = []installStep{
	{name: "trivial", agent: "trivial", args: install, want: `^Check trivial metrics have appeared ... 1 metrics and 1 values$`},
	{name: "simple as a pipe", agent: "simple", args: install, stdin: "daemon\npipe\n", want: simpleAppeared},
	{name: "simple again", agent: "simple", args: install, stdin: "daemon\npipe\n", want: simpleAppeared},
	{name: "simple as a dso", agent: "simple", args: install, stdin: "dso\n", want: simpleAppeared},
	{name: "simple with a port", agent: "simple", args: install, stdin: "daemon\nsocket\nInternet\n\n", want: simpleAppeared},
	{name: "simple with IPv6", agent: "simple", args: install, stdin: "daemon\nsocket\nIPv6\n2079\n", want: simpleAppeared},
	{name: "simple with a path", agent: "simple", args: install, stdin: "daemon\nsocket\nUnix\n/run/pcp/simple.socket\n", want: simpleAppeared},
	{name: "gopmda", agent: "gopmda", args: install, want: goAppeared},
	{name: "gopmda with arguments", agent: "gopmda", args: install, env: []string{"GOPMDA_ARGS=two words"}, want: goAppeared},
	{name: "sample", agent: "sample", args: install, stdin: "pipe\n", want: `^Check sampledso metrics have appeared ... 4 warnings, 196 metrics and N values$`},
	{name: "edited by hand", agent: "trivial", args: []string{"sh", "-c", edit}, want: `^pcp +/var/lib/pcp/pmdas/trivial/pmdatrivial -d 250 -Dpdu$`},
	{name: "without sample", agent: "sample", args: remove, want: `^Check sampledso metrics have gone away ... OK$`},
	{name: "without gopmda", agent: "gopmda", args: remove, want: `^Check gopmda metrics have gone away ... OK$`},
	{name: "without simple", agent: "simple", args: remove, want: `^Check simple metrics have gone away ... OK$`},
	{name: "without trivial", agent: "trivial", args: remove, want: `^Check trivial metrics have gone away ... OK$`},
}

const (
	simpleAppeared = `^Check simple metrics have appeared ... 5 metrics and 9 values$`
	goAppeared     = `^Check gopmda metrics have appeared ... 2 metrics and 2 values$`

	// edit changes a line of pmcd.conf and tells pmcd in the way of the scripts.
	edit = `. /etc/pcp.env
. $PCP_SHARE_DIR/lib/pmdaproc.sh
sed -i '/^trivial/s/ *$/ -Dpdu/' $PCP_PMCDCONF_PATH
__sighup_pmcd && ps -eo user=,args= | grep '[p]mdatrivial'`
)

var (
	install = []string{"./Install", "-e"} // show answers
	remove  = []string{"./Remove"}
)

// installLooks are what must be the same after each step. The last one is the
// processes of agents, which for DSOs are ours alone.
var installLooks = []string{
	"cat /etc/pcp/pmcd/pmcd.conf",
	"pmprobe -v pmcd.agent.status",
	"pmprobe trivial simple txmon trace gopmda sample.long sampledso.long",
	"pminfo -f gopmda.args",
	"pminfo -dmtT trivial simple txmon trace gopmda",
	"pminfo -dm sample sampledso", // one of sample's texts is pmcd's, and in other words here
	"ps -eo user=,args= | grep /[p]mdas/ | grep -v pmcd-dso: | sort",
}

// chances are parts of the output that are by chance.
var chances = []struct {
	re *regexp.Regexp
	to string
}{
	// Instances of sample.mirage come and go with time.
	{regexp.MustCompile(`(?m)^(Check sample.* and )\d+( values)$`), "${1}N$2"},
	{regexp.MustCompile(`(?m)^\[[^]]+\] (\w+)\(\d+\)`), "[DATE] $1(PID)"},
}

// TestPeerInstall has PCP's scripts install and remove agents on two machines,
// one with C pmcd and one with ours: they must not see a difference.
func TestPeerInstall(t *testing.T) {
	t.Parallel()
	c, ours := peer.StartMachine(t, peer.CPmcd), ourMachine(t)
	for _, m := range []*peer.Machine{c, ours} {
		addGopmda(t, m, "gopmda", 400)
	}
	takeSteps(t, c, ours, installSteps)
}

// sampleSteps are for our own demonstration agents.
var sampleSteps = []installStep{
	{name: "trivial", agent: "trivial", args: install, want: `^Check trivial metrics have appeared ... 1 metrics and 1 values$`},
	{name: "simple as a pipe", agent: "simple", args: install, stdin: "pipe\n", want: simpleAppeared},
	{name: "simple with a port", agent: "simple", args: install, stdin: "socket\nInternet\n\n", want: simpleAppeared},
	{name: "simple with a path", agent: "simple", args: install, stdin: "socket\nUnix\n/run/pcp/simple.socket\n", want: simpleAppeared},
	{name: "txmon", agent: "txmon", args: install, stdin: "one\ntwo\n\n", want: `^Check txmon metrics have appeared ... 6 metrics and 10 values$`},
	{name: "trace", agent: "trace", args: install, env: []string{"TRACE_OPTIONS=-T 30 -A disallow:10.1.2.3"},
		want: `^Check trace metrics have appeared ... 20 metrics and 6 values$`},
	{name: "without trace", agent: "trace", args: remove, want: `^Check trace metrics have gone away ... OK$`},
	{name: "without txmon", agent: "txmon", args: remove, want: `^Check txmon metrics have gone away ... OK$`},
	{name: "without simple", agent: "simple", args: remove, want: `^Check simple metrics have gone away ... OK$`},
	{name: "without trivial", agent: "trivial", args: remove, want: `^Check trivial metrics have gone away ... OK$`},
}

// TestPeerInstallSamples does it with our demonstration agents, and the agent trace, in the place of
// PCP's, under both.
func TestPeerInstallSamples(t *testing.T) {
	t.Parallel()
	c, ours := peer.StartMachine(t, peer.CPmcd), ourMachine(t)
	for _, name := range []string{"trivial", "simple", "txmon", "trace"} {
		src := filepath.Join(peer.Must(peer.ModuleRoot())(t), "agents", "builtin", name)
		program := peer.Must(os.ReadFile(peer.Must(peer.PMDA(name))(t)))(t)
		for _, m := range []*peer.Machine{c, ours} {
			dir := m.Path(peer.PMDAs + name)
			files := map[string][]byte{"pmda" + name: program}
			for _, e := range peer.Must(os.ReadDir(src))(t) {
				if !e.IsDir() && filepath.Ext(e.Name()) != ".go" {
					files[e.Name()] = peer.Must(os.ReadFile(filepath.Join(src, e.Name())))(t)
				}
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			writeAgent(t, dir, files)
		}
	}
	takeSteps(t, c, ours, sampleSteps)
}

// takeSteps takes the steps on both machines and looks at both after each.
func takeSteps(t *testing.T, c, ours *peer.Machine, steps []installStep) {
	t.Helper()
	for _, s := range steps {
		if s.name == "simple with IPv6" && peer.IPv6() != nil && !testutil.Required() {
			continue
		}
		ok := t.Run(s.name, func(t *testing.T) {
			cl := peer.Client{Args: s.args, Stdin: s.stdin, Env: s.env}
			got := bothDo(t, c, ours, peer.PMDAs+s.agent, cl)
			if !regexp.MustCompile("(?m)" + s.want).MatchString(got.Stdout) {
				t.Errorf("no line %s in\n%s", s.want, got)
			}
			for _, l := range installLooks {
				bothDo(t, c, ours, "/", peer.Client{Args: []string{"sh", "-c", l}})
			}
		})
		if !ok {
			return // what follows builds on it
		}
	}
	expectCleanLog(t, ours)
}

func ourMachine(t *testing.T) *peer.Machine {
	t.Helper()
	peer.Require(t)
	return peer.StartMachine(t, peer.Must(peer.UnderTest())(t))
}

// bothDo runs a command on both machines at the same time, fails the test if
// one can tell them apart, and returns what is common.
func bothDo(t *testing.T, c, ours *peer.Machine, dir string, cl peer.Client) peer.Output {
	t.Helper()
	type result struct {
		peer.Output
		err error
	}
	do := func(m *peer.Machine) (r result) {
		r.Output, r.err = m.Run(t.Context(), dir, cl)
		for _, c := range chances {
			r.Stdout, r.Stderr = c.re.ReplaceAllString(r.Stdout, c.to), c.re.ReplaceAllString(r.Stderr, c.to)
		}
		return r
	}
	other := make(chan result)
	go func() { other <- do(c) }()
	o := do(ours)
	want := <-other
	switch {
	case want.err != nil:
		t.Fatalf("C: %v", want.err)
	case o.err != nil:
		t.Fatalf("ours: %v", o.err)
	case want.String() != o.String():
		a, b := strings.Split(want.String(), "\n"), strings.Split(o.String(), "\n")
		i := 0
		for i < min(len(a), len(b))-1 && a[i] == b[i] {
			i++
		}
		t.Errorf("%s\nline %d of %d, C: %s\nline %d of %d, ours: %s", o.Cmd, i+1, len(a), a[i], i+1, len(b), b[i])
	case os.Getenv("PMCD_SHOW_PEERS") == "1":
		t.Logf("%s\n%s", o.Cmd, o)
	}
	return o.Output
}

var troubled = regexp.MustCompile(`(?m)^(.*pmcd\(\d+\) (Warning|Error|Critical):|Warning:|WARNING: DATA RACE|panic:|Cleanup .*(signal|status|exit\([1-9])).*$`)

// expectCleanLog looks for complaints in pmcd's log.
func expectCleanLog(t *testing.T, m *peer.Machine) {
	t.Helper()
	log := m.Log()
	if !strings.Contains(log, "pmcd RESTARTED") {
		t.Errorf("not the log of a pmcd that was told to start again:\n%s", log)
	}
	for _, l := range troubled.FindAllString(log, -1) {
		t.Errorf("log: %s", l)
	}
}
