package pmdatest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// An agent is one that PCP ships, and what its installation needs.
type agent struct {
	name    string
	iam     string             // its name in pmcd.conf, if another one
	before  string             // shell command before the installation
	answers string             // to the questions of its script
	ready   string             // a metric that has a value once the agent works
	ofLinux bool               // it has values only beside the linux agent, which wants to be root
	leaves  string             // extended regular expression of command lines that C pmcd leaves behind
	only    string             // release that has it, if not all
	fails   bool               // it ends by itself, with both
	root    bool               // it is tried with pmcd as root only: else it does not work, with both
	differs []*peer.Difference // in values
	anew    string             // regular expression of metrics that differ from one process to the next
}

func (a agent) id() string { return cmp.Or(a.iam, a.name) }

// works reports whether an agent has a value on a machine once it is ready.
func (a agent) works(m *peer.Machine) bool { return a.ready != "" && !(a.ofLinux && m.User != "") }

const (
	pmdas   = "/var/lib/pcp/pmdas/"
	timeout = 5 * time.Minute
)

// A bench is two machines that agents are installed on.
type bench struct {
	c, ours *peer.Machine
	killed  []string // agents of ours that a test has killed, or that cannot start
}

// newBench starts machines of a release, with pmcd running as a user.
func newBench(t *testing.T, release, user, before string) *bench {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{c: peer.BootRelease(t, release, ""), ours: peer.BootRelease(t, release, path)}
	both(t, b, "/", "start of servers", func(m *peer.Machine) error {
		if before == "" {
			return nil
		}
		return run(t, m, before)
	})
	if user != "" {
		b.killed = []string{"root", "linux", "proc", "xfs", "kvm"} // these want to be root
	}
	for _, m := range []*peer.Machine{b.c, b.ours} {
		m.User = user
		m.Start(t)
	}
	return b
}

// run runs a shell command that must succeed.
func run(t *testing.T, m *peer.Machine, command string) error {
	o, err := m.Run(t.Context(), "/", client("sh", "-c", command))
	if err == nil && o.Code != 0 {
		err = fmt.Errorf("%s", o)
	}
	return err
}

// client is a command that waits for pmcd longer than the 10 s that libpcp waits
// by default, as pmcd waits for agents longer than 5 s (pmcd -t) and for their
// start longer than 3 s (-q). Agents in Python that format all they know for each
// value (postgresql) need a second for a fetch on a machine with nothing else to
// do, and here up to twelve installations share the processors.
func client(args ...string) peer.Client {
	return peer.Client{Args: args, Env: []string{"PMCD_REQUEST_TIMEOUT=60"}}
}

// both does something on both machines at the same time.
func both(t *testing.T, b *bench, dir, what string, do func(*peer.Machine) error) {
	t.Helper()
	other := make(chan error)
	go func() { other <- do(b.c) }()
	ours := do(b.ours)
	if err := <-other; err != nil {
		t.Fatalf("%s: %s with PCP's pmcd: %v", dir, what, err)
	}
	if ours != nil {
		t.Fatalf("%s: %s with our pmcd: %v", dir, what, ours)
	}
}

// shell runs a command on both machines and returns what it prints.
func (b *bench) shell(t *testing.T, command string) (c, ours string) {
	t.Helper()
	both(t, b, "/", command, func(m *peer.Machine) error {
		o, err := m.Run(t.Context(), "/", client("sh", "-c", command))
		if m == b.c {
			c = o.Stdout
		} else {
			ours = o.Stdout
		}
		return err
	})
	return c, ours
}

// accidents are parts of what scripts print that differ from run to run.
var accidents = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^\[[A-Z][^]]+\] (\w+)\(\d+\)`), "[DATE] $1(PID)"},
	{regexp.MustCompile(`\.\.\. (?:\d+ warnings, )?(\d+) metrics and \d+ values`), "... $1 metrics"},
	{regexp.MustCompile(`(?m)^perl: error: .*\n`), ""}, // at random, of a library of the agent
	{regexp.MustCompile(`(?m) in \d+\.\d+s, `), " in TIME, "},
}

// script has both machines run a script of an agent, compares what it prints
// and returns that.
func (b *bench) script(t *testing.T, a agent, args ...string) string {
	t.Helper()
	var text, otext string
	both(t, b, a.name, args[0], func(m *peer.Machine) error {
		cl := client(args...)
		cl.Stdin = a.answers
		o, err := m.Run(t.Context(), pmdas+a.name, cl)
		for _, x := range accidents {
			o.Stdout, o.Stderr = x.re.ReplaceAllString(o.Stdout, x.to), x.re.ReplaceAllString(o.Stderr, x.to)
		}
		// Threads of agents say the same more than once, or not.
		s := o.String()
		s = strings.Join(slices.Compact(strings.Split(s, "\n")), "\n")
		if m == b.c {
			text = s
		} else {
			otext = s
		}
		return err
	})
	if text != otext {
		t.Errorf("%s of %s: C:\n%s\nours:\n%s", args[0], a.name, text, otext)
	}
	return otext
}

// names are the names of an agent on both machines, which must be the same.
func (b *bench) names(t *testing.T, without map[string]bool) []string {
	t.Helper()
	var names []string
	alike := peer.Until(timeout, func() bool {
		c, ours := b.shell(t, "pminfo | sort")
		names = names[:0]
		for n := range strings.Lines(ours) {
			if n = strings.TrimSuffix(n, "\n"); !without[n] {
				names = append(names, n)
			}
		}
		return c == ours
	})
	if !alike {
		c, ours := b.shell(t, "pminfo | sort")
		t.Errorf("names: %s", difference(c, ours))
	}
	return names
}

// difference is the first line that differs.
func difference(c, ours string) string {
	a, b := strings.Split(c, "\n"), strings.Split(ours, "\n")
	i := 0
	for i < min(len(a), len(b))-1 && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("line %d of %d, C: %s\nline %d of %d, ours: %s", i+1, len(a), a[i], i+1, len(b), b[i])
}

// try installs an agent, compares what it serves, kills it, and removes it.
func (b *bench) try(t *testing.T, a agent) {
	if a.before != "" {
		b.shell(t, a.before)
	}
	before := map[string]bool{}
	for _, n := range b.names(t, nil) {
		before[n] = true
	}
	if a.fails {
		b.killed = append(b.killed, a.id())
	}
	said := b.script(t, a, "./Install", "-e")
	names := b.names(t, before)
	if len(names) == 0 {
		t.Errorf("no metrics:\n%s", said)
		return
	}
	c, ours := b.shell(t, "grep '^"+a.id()+"[[:space:]]' /etc/pcp/pmcd/pmcd.conf")
	if c != ours {
		t.Errorf("pmcd.conf: %s", difference(c, ours))
	}
	kind := strings.Join(strings.Fields(ours), " ")
	b.wait(t, a, b.c)
	b.wait(t, a, b.ours)
	b.compare(t, a, names)
	users := b.users(t, a)
	if strings.Contains(kind, " pipe ") && !a.fails {
		b.kill(t, a)
		if got := b.names(t, before); !slices.Equal(got, names) {
			t.Errorf("after a restart there are %d names, not %d", len(got), len(names))
		}
		b.compare(t, a, names)
	}
	_, values := b.shell(t, "pmprobe "+strings.Join(names, " ")+" | awk '$2 > 0 { n++ } END { print n+0 }'")
	values = strings.TrimSpace(values)
	if a.works(b.ours) && values == "0" {
		t.Errorf("no values any more")
	}
	t.Logf("seen: %s | %s | %d metrics, %s with values", kind, users, len(names), values)
	a.answers = ""
	b.script(t, a, "./Remove")
	if left := b.names(t, before); len(left) > 0 {
		t.Errorf("after Remove there are %q", left)
	}
	if !peer.Until(timeout, func() bool { return processes(b.ours, a) == "" }) {
		t.Errorf("after Remove there is %s", processes(b.ours, a))
	}
	if a.leaves != "" {
		if err := run(t, b.c, "ps -eo pid=,args= | awk '$0 ~ re { print $1 }' re='"+a.leaves+"' | xargs -r kill -KILL || :"); err != nil {
			t.Error(err)
		}
	}
}

// wait waits until an agent works.
func (b *bench) wait(t *testing.T, a agent, m *peer.Machine) {
	t.Helper()
	if !a.works(m) {
		return
	}
	var o peer.Output
	if !peer.Until(timeout, func() bool {
		o, _ = m.Run(t.Context(), "/", client("pmprobe", a.ready))
		f := strings.Fields(o.Stdout)
		return len(f) > 1 && f[0] == a.ready && f[1] != "0" && f[1][0] != '-'
	}) {
		which := "PCP's"
		if m == b.ours {
			which = "our"
		}
		t.Errorf("%s pmcd: no value: %s", which, o)
	}
}

// compare compares what both daemons say about the metrics of an agent.
func (b *bench) compare(t *testing.T, a agent, names []string) {
	t.Helper()
	var rules []peer.Rule
	if a.anew != "" {
		rules = append(rules, peer.Rule{Key: regexp.MustCompile("^(?:" + a.anew + ")$"), How: peer.Set})
	}
	peer.CompareMachines(t, b.c, b.ours, "/", client(append([]string{"pminfo", "-dmMtTls"}, names...)...),
		peer.Comparison{Split: peer.Metrics, Rules: rules, Status: peer.AnyStatus})
	peer.CompareMachines(t, b.c, b.ours, "/", client(append([]string{"pminfo", "-f"}, names...)...),
		peer.Comparison{Split: peer.Metrics, Rewrite: withoutNumbers, Default: peer.Set, Differences: a.differs, Status: peer.AnyStatus})
}

var number = regexp.MustCompile(`value -?\d[-+.\de]*$`)

// withoutNumbers makes all values that are numbers alike: agents of two daemons
// do not look at the same moment.
func withoutNumbers(r peer.Record) peer.Record {
	for i, l := range r.Lines {
		r.Lines[i] = number.ReplaceAllString(l, "value 0")
	}
	return r
}

// users are the users that run the processes of an agent, which must be the
// same ones. DSOs have a process with our pmcd only.
func (b *bench) users(t *testing.T, a agent) string {
	t.Helper()
	c, ours := b.shell(t, fmt.Sprintf("ps -eo user=,args= | grep '[p]mda%s\\b' | sort", a.name))
	if c != ours {
		t.Errorf("processes: %s", difference(c, ours))
	}
	user, _, _ := strings.Cut(ours, " ")
	return cmp.Or(user, "-")
}

// processes are the processes of an agent.
func processes(m *peer.Machine, a agent) string {
	o, err := m.Run(context.Background(), "/", client("sh", "-c", fmt.Sprintf("ps -eo pid=,args= | grep '[p]mda%s\\b'", a.name)))
	if err != nil {
		return err.Error()
	}
	return o.Stdout
}

// kill kills an agent of ours and waits until pmcd has started it again.
func (b *bench) kill(t *testing.T, a agent) {
	t.Helper()
	was := processes(b.ours, a)
	pid, _, _ := strings.Cut(strings.TrimSpace(was), " ")
	if pid == "" {
		t.Error("no process to kill")
		return
	}
	b.killed = append(b.killed, a.id())
	if err := run(t, b.ours, "kill -KILL "+pid); err != nil {
		t.Fatal(err)
	}
	well := fmt.Sprintf("or %q] value 0\n", a.id())
	if !peer.Until(timeout, func() bool {
		now := processes(b.ours, a)
		if now == "" || strings.HasPrefix(strings.TrimSpace(now), pid+" ") {
			return false
		}
		o, err := b.ours.Run(t.Context(), "/", client("pminfo", "-f", "pmcd.agent.status"))
		return err == nil && strings.Contains(o.Stdout, well)
	}) {
		t.Errorf("not restarted: %s\n%s", was, processes(b.ours, a))
	}
	b.wait(t, a, b.ours)
}

var troubled = regexp.MustCompile(`(?m)^(.*pmcd\(\d+\) (Warning|Error|Critical):|Warning:|WARNING: DATA RACE|panic:|Cleanup .*(signal|status)).*$`)

// expectCleanLog looks for complaints in the log of our pmcd.
func (b *bench) expectCleanLog(t *testing.T) {
	t.Helper()
	for _, l := range troubled.FindAllString(b.ours.Log(), -1) {
		if !slices.ContainsFunc(b.killed, func(name string) bool { return strings.Contains(l, `"`+name+`"`) }) {
			t.Errorf("log: %s", l)
		}
	}
}

// tryAll tries agents one after the other on machines of a release.
func tryAll(t *testing.T, release, user, before string, agents []agent) {
	b := newBench(t, release, user, before)
	for _, a := range agents {
		if a.only != "" && a.only != strings.TrimSuffix(release, peer.WithServers) {
			continue
		}
		if a.root && user != "" {
			continue
		}
		t.Run(a.name, func(t *testing.T) { b.try(t, a) })
	}
	b.expectCleanLog(t)
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The scripts sleep most of the time.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}
