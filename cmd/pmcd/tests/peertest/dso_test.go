package peertest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// dsoLines are agents that C pmcd loads into its process: all that the stock
// pmcd.conf has, and the demonstration agents.
func dsoLines(t *testing.T) []string {
	t.Helper()
	simple, err := peer.SimpleDSO()
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"pmcd 2 dso pmcd_init " + peer.PMDAs + "pmcd/pmda_pmcd.so",
		"pmproxy 4 dso pmproxy_init " + peer.PMDAs + "mmv/pmda_mmv.so",
		"mmv 70 dso mmv_init " + peer.PMDAs + "mmv/pmda_mmv.so",
		`"pmdajbd2 DSO" 122 dso jbd2_init ` + peer.PMDAs + "jbd2/pmda_jbd2.so", // some of it is in a label
		"sample 29 dso sample_init " + peer.PMDAs + "sample/pmda_sample.so",
		"simple 253 dso simple_init " + simple,
	}
}

// dsoMoving adds what is another process here, and the same in C pmcd.
var dsoMoving = append([]peer.Rule{
	{Key: re(`sample\.datasize`), How: peer.Shape, Why: "each process has its own"},
}, moving...)

// TestDSO has the same shared objects in the process of C pmcd, and under ours
// in one each.
func TestDSO(t *testing.T) {
	p := otherPair(t, func() peer.Config { return peer.Config{Agents: dsoLines(t)} })
	cmp := pminfo()
	cmp.Rules = dsoMoving
	for _, line := range []string{
		"pminfo -h {host} -dmtTlf jbd2",
		"pminfo -h {host} -dmtTl sample simple mmv pmproxy",
		"pminfo -h {host} -f sample simple mmv pmproxy",
		"pminfo -h {host} -x sample.event sample.bin",
		"pminfo -h {host} -I 29.2 29.9 253.0 253.1 122.0",
		"pminfo -h {host} -l -f pmcd.agent",
		"pmprobe -h {host} -v jbd2 mmv pmproxy simple sample.dynamic sample.bin",
	} {
		t.Run(line, func(t *testing.T) {
			for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
				t.Run(tr.String(), func(t *testing.T) {
					cmp := cmp
					if strings.HasPrefix(line, "pmprobe") {
						cmp = pmprobe()
						cmp.Rules = dsoMoving
					}
					p.Compare(t, tr, words(line), cmp)
				})
			}
		})
	}
	for _, args := range []string{
		"sample.write_me 7", "sample.string.write_me x", "-i bin-100 sample.bin 77", "sample.event.reset 0",
		"simple.numfetch 40", "simple.color 3", "sample.long.one 2", "simple.now 3", "jbd2.njournals 1",
	} {
		t.Run("pmstore "+args, func(t *testing.T) {
			p.Compare(t, peer.TCP4, words("pmstore -h {host} "+args), peer.Comparison{Status: peer.AnyStatus})
		})
	}
	t.Run("stored", func(t *testing.T) {
		p.Compare(t, peer.TCP4, words("pminfo -h {host} -f sample.write_me sample.string.write_me sample.bin"), cmp)
	})
}

// hostOf waits for the process of an agent other than old, which was the one
// before.
func hostOf(t *testing.T, d *peer.Daemon, agent string, old int) (pid int) {
	t.Helper()
	name := "pmcd-dso: " + agent + "\x00"
	if !peer.Until(testutil.Hangs, func() bool {
		for _, p := range peer.Descendants(d.PID()) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
			if strings.HasPrefix(string(b), name) && p.PID != old {
				pid = p.PID
				return true
			}
		}
		return false
	}) {
		t.Fatalf("agent %s has no process", agent)
	}
	return pid
}

// TestDSOCrash kills the process of one agent: the others do not notice, and
// SIGHUP starts it again.
func TestDSOCrash(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{Agents: dsoLines(t), Env: []string{"PMCD_RESTART_AGENTS=0"}})
	run := func(line string) string {
		o, err := d.Run(t.Context(), peer.TCP4, words(line))
		if err != nil {
			t.Fatal(err)
		}
		return o.String()
	}
	expect := func(line, want string) {
		t.Helper()
		var got string
		if !peer.Until(testutil.Hangs, func() bool { got = run(line); return strings.Contains(got, want) }) {
			t.Errorf("%s: no %q:\n%s", line, want, got)
		}
	}
	expect("pmprobe -h {host} -v sample.long.hundred", "sample.long.hundred 1 100")
	pid := hostOf(t, d, "sample", 0)
	if err := syscall.Kill(pid, syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	expect("pmprobe -h {host} sample.long.hundred", "No PMCD agent for domain of request")
	if got := run("pmprobe -h {host} -v simple.color jbd2.njournals"); !strings.Contains(got, "simple.color 3 ") || !strings.Contains(got, "jbd2.njournals 1 ") {
		t.Errorf("others:\n%s", got)
	}
	if log := d.Log(); !strings.Contains(log, `Cleanup "sample" agent (dom 29)`) || !strings.Contains(log, "signal(11)") {
		t.Errorf("the log does not say what has happened:\n%s", log)
	}
	d.Signal(syscall.SIGHUP)
	hostOf(t, d, "sample", pid)
	expect("pmprobe -h {host} -v sample.long.hundred", "sample.long.hundred 1 100")
	row := regexp.MustCompile(`(?m)^sample +29 +\d+ +\d+ +\d+ +2 dso i:7  lib=/var/lib/pcp/pmdas/sample/pmda_sample.so entry=sample_init$`)
	// The agent answers before the reload is over, which the second is about.
	n := 0
	if !peer.Until(testutil.Hangs, func() bool { n = len(row.FindAllString(d.Log(), -1)); return n >= 2 }) || n != 2 {
		t.Errorf("%d rows of sample in the tables of agents, want 2:\n%s", n, d.Log())
	}
}

// TestDSOComesBack has faults end the process of an agent: it comes back by
// itself, a second time too, and the others stay.
func TestDSOComesBack(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{Agents: dsoLines(t)})
	other := hostOf(t, d, "simple", 0)
	answers := func() {
		t.Helper()
		if !peer.Until(peer.Hangs, func() bool {
			return strings.Contains(output(t, d, "pmprobe -h {host} -v sample.long.hundred"), "sample.long.hundred 1 100")
		}) {
			t.Fatalf("the agent does not answer:\n%s", d.Log())
		}
	}
	answers() // else the fault may come before the agent has started
	for range 2 {
		pid := hostOf(t, d, "sample", 0)
		if err := syscall.Kill(pid, syscall.SIGSEGV); err != nil {
			t.Fatal(err)
		}
		hostOf(t, d, "sample", pid)
		answers()
	}
	if pid := hostOf(t, d, "simple", 0); pid != other {
		t.Errorf("another agent had process %d and has %d", other, pid)
	}
	for text, want := range map[string]int{`Cleanup "sample" agent (dom 29)`: 2, "signal(11)": 2, "pmcd RESTARTED": 0} {
		if n := strings.Count(d.Log(), text); n != want {
			t.Errorf("the log has %q %d times, want %d:\n%s", text, n, want, d.Log())
		}
	}
}

// TestDSOsThatDoNotStart looks at DSOs that cannot be started: clients see the same
// as with C pmcd, and the log says what to do about it.
func TestDSOsThatDoNotStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "pmda_text.so")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := otherPair(t, func() peer.Config {
		return peer.Config{Agents: []string{
			"pmcd 2 dso pmcd_init " + peer.PMDAs + "pmcd/pmda_pmcd.so",
			"simple 253 dso simple_start /no/such/pmda_simple.so",
			"sample 29 dso sample_start " + peer.PMDAs + "sample/pmda_sample.so",
			"mmv 70 dso mmv_init " + text,
			"sendmail 15 dso sendmail_init " + peer.PMDAs + "sendmail/pmda_sendmail.so",
			"jbd2 122 dso jbd2_init " + peer.PMDAs + "jbd2/pmda_jbd2.so",
		}}
	})
	for _, line := range []string{
		"pminfo -h {host} -f sample.long simple.color jbd2.njournals mmv sendmail",
		"pminfo -h {host} -d simple jbd2",
		"pminfo -h {host} -f pmcd.agent",
		"pmprobe -h {host} -v simple sample.bin jbd2",
	} {
		t.Run(line, func(t *testing.T) { p.Compare(t, peer.TCP4, words(line), pminfo()) })
	}
	log := p.Ours.Log()
	for _, want := range []string{
		`cannot start "simple" agent (dom 253): cannot find the DSO: stat /no/such/pmda_simple.so: no such file or directory`,
		`cannot start "sample" agent (dom 29): ` + peer.PMDAs + `sample/pmda_sample.so has no function sample_start`,
		`cannot start "mmv" agent (dom 70): ` + text + ` is not a shared object: not an ELF file`,
		`cannot start "sendmail" agent (dom 15): sendmail_init of ` + peer.PMDAs + `sendmail/pmda_sendmail.so failed: `,
	} {
		if !p.Same() && !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}
