package peer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Pair is PCP's pmcd and ours, started alike.
type Pair struct {
	C, Ours *Daemon

	// Agents says that agents are compared, PCP's in C and ours in Ours, and
	// not the daemons, which may be the same.
	Agents bool
}

// StartPair starts PCP's pmcd and the one under test.
func StartPair(c Config) (*Pair, error) {
	path, err := UnderTest()
	if err != nil {
		return nil, err
	}
	pc, err := Start(CPmcd, c)
	if err != nil {
		return nil, err
	}
	po, err := Start(path, c)
	if err != nil {
		pc.Stop()
		return nil, err
	}
	return &Pair{C: pc, Ours: po}, nil
}

// Same reports that both are PCP's: what checks the tests and not our daemon.
func (p *Pair) Same() bool { return !p.Agents && p.Ours.Path == CPmcd }

// looks is how often PCP's pmcd is asked for what it may not repeat, before a
// difference counts.
const looks = 10

// maxVoid is how many attempts may not count, see [Comparison.Void].
const maxVoid = 20

// Compare runs a client against both daemons and fails the test if it tells
// them apart.
func (p *Pair) Compare(t *testing.T, tr Transport, c Client, cmp Comparison) {
	t.Helper()
	p.CompareFunc(t, func(d *Daemon) (Output, error) { return d.Run(t.Context(), tr, c) }, cmp)
}

// CompareFunc is Compare for a client that is not a program. Both daemons are
// asked equally often, so that agents which count their requests stay in step.
func (p *Pair) CompareFunc(t *testing.T, ask func(*Daemon) (Output, error), cmp Comparison) {
	t.Helper()
	if p.Same() {
		cmp.Differences = nil
	}
	cmp.run(t, func() (Output, error) { return ask(p.C) }, func() (Output, error) { return ask(p.Ours) })
}

// CompareMachines runs a command in a directory of two machines, the first with
// PCP's pmcd and the second with ours, and fails the test if it tells them apart.
func CompareMachines(t *testing.T, c, ours *Machine, dir string, cl Client, cmp Comparison) {
	t.Helper()
	cmp.run(t, func() (Output, error) { return c.Run(t.Context(), dir, cl) }, func() (Output, error) { return ours.Run(t.Context(), dir, cl) })
}

// run fails the test if the sides differ.
func (cmp Comparison) run(t *testing.T, askC, askOurs func() (Output, error)) {
	t.Helper()
	cmd, diffs, err := cmp.ask(t.Logf, askC, askOurs)
	if err != nil {
		t.Fatal(err)
	}
	if len(diffs) == 0 {
		return
	}
	const most = 30
	n := len(diffs)
	if n > most {
		diffs = append(diffs[:most], "...")
	}
	t.Errorf("%s\n%d differences:\n%s", cmd, n, strings.Join(diffs, "\n"))
}

// ask compares our first answer with those of PCP's pmcd, and returns the command and the
// differences. If there are some, PCP's pmcd is asked again: where it repeats itself every
// time, ours is wrong. A later answer of ours does not count. It is asked all the same,
// for agents that count their requests.
func (cmp Comparison) ask(logf func(string, ...any), askC, askOurs func() (Output, error)) (cmd string, diffs []string, err error) {
	// Complaints have dates and process ids in them.
	onErr := cmp
	onErr.Split, onErr.Default, onErr.Rules = Whole, Shape, nil
	var stdouts, stderrs []string
	var codes []int
	var ours *Output // the first answer
	for n, void := 0, 0; n < looks; n++ {
		c, err := askC()
		if err != nil {
			return "", nil, fmt.Errorf("PCP's pmcd: %w", err)
		}
		o, err := askOurs()
		if err != nil {
			return "", nil, fmt.Errorf("our pmcd: %w", err)
		}
		cmd = o.Cmd
		if os.Getenv("PMCD_SHOW_PEERS") == "1" {
			logf("%s\n%s", c.Cmd, c)
		}
		if cmp.Void != "" && void < maxVoid && (strings.Contains(c.Stderr, cmp.Void) || strings.Contains(o.Stderr, cmp.Void)) {
			void++
			n--
			continue
		}
		// Outputs are the same, too, if no client can talk to either daemon. Now and
		// then PCP's answers a request for processes with PM_ERR_IPC.
		if cmp.Status != AnyStatus && c.Code != cmp.Status {
			diffs = []string{fmt.Sprintf("exit status against PCP's pmcd: %d, not %d\n%s", c.Code, cmp.Status, c)}
			continue
		}
		if !strings.Contains(c.Stdout, cmp.Must) {
			diffs = []string{fmt.Sprintf("no %q against PCP's pmcd\n%s", cmp.Must, c)}
			continue
		}
		if ours == nil {
			ours = &o
		}
		stdouts, stderrs, codes = append(stdouts, c.Stdout), append(stderrs, c.Stderr), append(codes, c.Code)
		diffs = cmp.judge(stdouts, ours.Stdout)
		for _, d := range onErr.judge(stderrs, ours.Stderr) {
			diffs = append(diffs, "stderr "+d)
		}
		if !slices.Contains(codes, ours.Code) {
			diffs = append(diffs, fmt.Sprintf("exit status: C %d, ours %d", c.Code, ours.Code))
		}
		if len(diffs) == 0 {
			if n > 0 {
				logf("PCP's pmcd differs from itself: %s", c.Cmd)
			}
			return cmd, nil, nil
		}
	}
	return cmd, diffs, nil
}

// Must is for values that a test cannot do without.
func Must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Files of PCP.
const (
	PMDAs    = "/var/lib/pcp/pmdas/" // directories of agents
	PmcdConf = "/etc/pcp/pmcd/pmcd.conf"
)
