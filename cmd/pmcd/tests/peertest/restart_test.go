package peertest

import (
	"fmt"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// pmdaOf returns the process of an agent that is a program.
func pmdaOf(t *testing.T, d *peer.Daemon, name string) (pid int) {
	t.Helper()
	if !peer.Until(testutil.Hangs, func() bool {
		for _, p := range peer.Descendants(d.PID()) {
			if p.Name == name {
				pid = p.PID
			}
		}
		return pid != 0
	}) {
		t.Fatalf("no process %s", name)
	}
	return pid
}

// output runs a client and returns what it prints.
func output(t *testing.T, d *peer.Daemon, line string) string {
	t.Helper()
	o, err := d.Run(t.Context(), peer.TCP4, words(line))
	if err != nil {
		t.Fatal(err)
	}
	return o.String()
}

// An agent that is killed comes back, and what clients and the log are told of
// that is the same. PCP's pmcd needs a request for the agent to notice.
func TestAgentComesBack(t *testing.T) {
	p := otherPair(t, func() peer.Config { return peer.Config{} })
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		seqnum := func() (n int) {
			out := output(t, d, "pminfo -h {host} -f pmcd.seqnum")
			m := regexp.MustCompile(`value (\d+)`).FindStringSubmatch(out)
			if m == nil {
				t.Fatal(out)
			}
			n, _ = strconv.Atoi(m[1])
			return n
		}
		well := func() bool {
			return strings.Contains(output(t, d, "pmprobe -h {host} -v sample.long.one"), "sample.long.one 1 1")
		}
		if !well() {
			t.Fatalf("%s: no value to begin with", d.Path)
		}
		before := seqnum()
		if err := syscall.Kill(pmdaOf(t, d, "pmdasample"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !peer.Until(peer.Hangs, func() bool { return strings.Contains(d.Log(), "Cleanup") || !well() }) {
			t.Errorf("%s: the end of the agent is not noticed", d.Path)
		}
		if !peer.Until(peer.Hangs, well) {
			t.Errorf("%s: the agent does not come back", d.Path)
		}
		if after := seqnum(); after != before+2 {
			t.Errorf("%s: pmcd.seqnum %d, then %d", d.Path, before, after)
		}
		if out := output(t, d, "pminfo -h {host} -f pmcd.agent.status"); !strings.Contains(out, `"sample"] value 0`) {
			t.Errorf("%s: %s", d.Path, out)
		}
		for _, want := range []string{
			`(?m)^\[.*\] pmcd\(\d+\) Info: CleanupAgent \.\.\.\nCleanup "sample" agent \(dom 29\): protocol failure for fd=\d+, signal\(9\)$`,
			`(?m)^\[.*\] pmcd\(\d+\) Info: Auto-restarting agents\.$`,
		} {
			if !regexp.MustCompile(want).MatchString(d.Log()) {
				t.Errorf("%s: the log has no %s", d.Path, want)
			}
		}
	}
}

// PMCD_RESTART_AGENTS=0 leaves what is dead alone.
func TestAgentStaysAway(t *testing.T) {
	p := otherPair(t, func() peer.Config { return peer.Config{Env: []string{"PMCD_RESTART_AGENTS=0"}} })
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		probe := func() string { return output(t, d, "pmprobe -h {host} sample.long.one") }
		if err := syscall.Kill(pmdaOf(t, d, "pmdasample"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		const none = "No PMCD agent for domain of request"
		if !peer.Until(peer.Hangs, func() bool { return strings.Contains(probe(), none) }) {
			t.Errorf("%s: %s", d.Path, probe())
		}
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if out := probe(); !strings.Contains(out, none) {
				t.Fatalf("%s: %s", d.Path, out)
			}
		}
		if want := "Warning: restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment\n"; !strings.Contains(d.Log(), want) {
			t.Errorf("%s: the log has no %s", d.Path, want)
		}
	}
}

// pmcd notices the end of an agent that it has not started although no client sends a request,
// and connects to the agent when there is one again.
func TestSocketAgentComesBack(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{Agents: []string{
		"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so",
		fmt.Sprintf("simple 253 socket inet %d", port),
	}})
	start := func() (kill func()) {
		cmd := exec.Command(simple, "-d", "253", "-i", strconv.Itoa(port), "-l", d.Dir+"/simple.log", "-U", me.Username)
		cmd.Dir = d.Dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		kill = func() {
			cmd.Process.Kill()
			<-ended
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return kill
	}
	status := func(want string) func() bool {
		return func() bool {
			return strings.Contains(output(t, d, "pminfo -h {host} -f pmcd.agent.status"), `"simple"] value `+want)
		}
	}
	for range 2 {
		kill := start()
		if !peer.Until(peer.Hangs, status("0")) {
			t.Fatal("the agent is not found")
		}
		if out := output(t, d, "pmprobe -h {host} -v simple.color"); !strings.Contains(out, "simple.color 3 ") {
			t.Error(out)
		}
		kill()
		if !peer.Until(peer.Hangs, func() bool { return !status("0")() }) {
			t.Fatal("the end of the agent is not noticed")
		}
	}
}
