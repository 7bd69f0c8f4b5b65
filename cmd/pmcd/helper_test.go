package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
)

// Without its root helper, and without a service manager, pmcd goes on: its agents
// end, and come back with the rights of its user.
func TestPeerHelperKilled(t *testing.T) {
	p := startPrivileged(t)
	var before []peer.Proc
	for _, d := range peer.Descendants(p.pid) {
		if d.PID != p.root {
			before = append(before, d)
		}
	}
	if err := syscall.Kill(p.root, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pmcdtest.AwaitEnd(t, p.root)
	p.logs("the root helper (pmcd-root) has ended: signal 9 (SIGKILL), sent by a user or the out-of-memory killer; the agents that it has started end, and are started again as pcp, without root's rights, until pmcd is restarted")
	for _, a := range before {
		if !peer.Until(peer.Hangs, func() bool { return !a.Alive() }) {
			t.Errorf("%s, process %d, still runs", a.Name, a.PID)
		}
	}
	p.runsAs("simple.numfetch", "pmdasimple", "pcp")
	p.runsAs("sample.seconds", "pmcd-dso: sample", "pcp")
	p.runsAs("proc.nprocs", "pmcd-agent: proc", "pcp")
	p.logs(`agent "proc" (dom 3) runs as pcp: the root helper has ended; it has no values that only the user of a process may read`)
	if _, text := p.report(); !strings.Contains(text, "problem:       the root helper (pmcd-root) has ended: signal 9 (SIGKILL), sent by a user or the out-of-memory killer; agents run as pcp, without root's rights, until pmcd is restarted\n") {
		t.Errorf("the status is\n%s", text)
	}
	// They are restarted like others.
	p.kill("pmdasimple")
	p.reload()
	p.runsAs("simple.numfetch", "pmdasimple", "pcp")
}

// The same holds for a socket agent that has changed its user since it was started, to
// which the kernel sends no signal then.
func TestPeerHelperKilledSocket(t *testing.T) {
	p := privilegedPlace(t)
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p.Write("conf", fmt.Sprintf("pmcd 2 dso pmcd_init /none\nsimple 253 socket inet %d %s -d 253 -i %[1]d -l %[3]s -U pcp\n",
		port, simple, p.At("log/simple.log")))
	p.Write("pmns", "root { pmcd simple }\npmcd { numclients 2:0:3 }\nsimple { numfetch 253:0:0 }\n")
	p.start()
	p.answers("simple.numfetch", true)
	before := pmcdtest.Children(p.root)["pmdasimple"]
	if before == 0 {
		t.Fatal("the root helper has not started it")
	}
	if err := syscall.Kill(p.root, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pmcdtest.AwaitEnd(t, p.root)
	pmcdtest.AwaitEnd(t, before)
	p.logs(`agent "simple" (dom 253) is down: the root helper (pmcd-root) has ended; it was up for `)
	if !peer.Until(peer.Hangs, func() bool { now := p.agent("pmdasimple"); return now != 0 && now != before }) {
		t.Fatal("it is not started again")
	}
	p.answers("simple.numfetch", true)
}

// A service manager starts pmcd again, with a root helper.
func TestPeerHelperKilledService(t *testing.T) {
	for _, env := range []string{"", "NOTIFY_SOCKET="} {
		p := startPrivilegedFiles(t)
		cmd := p.Command("-U", "pcp", "-F")
		if env == "" {
			cmd.Args = append(cmd.Args, "--exit-without-helper")
		} else {
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: p.At("run/notify")})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close()
			cmd.Env = append(cmd.Env, env+p.At("run/notify"))
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.pid = cmd.Process.Pid
		p.answers("simple.numfetch", true)
		p.answers("proc.nprocs", true)
		p.root = pmcdtest.Children(p.pid)[roothelper.Name]
		below := peer.Descendants(p.pid)
		if err := syscall.Kill(p.root, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%q: exit code %d (%v), want 1", env, code, err)
		}
		p.logs("the root helper (pmcd-root) has ended: signal 9 (SIGKILL), sent by a user or the out-of-memory killer; pmcd ends with exit code 1, so that the service manager starts it again with a root helper")
		if log := pmcdtest.Read(p.At("log/pmcd.log")); strings.Contains(log, "next start in") || strings.Contains(log, "is down") {
			t.Errorf("%q: pmcd logs that agents have failed:\n%s", env, log)
		}
		for _, b := range below {
			if !peer.Until(peer.Hangs, func() bool { return !b.Alive() }) {
				t.Errorf("%q: %s, process %d, still runs", env, b.Name, b.PID)
			}
		}
	}
}

// The agents of a root helper end with it by themselves: pmcd need not do anything,
// such as close their pipes. So does the host of a DSO, which has changed its user.
func TestPeerHelperDeathSignal(t *testing.T) {
	p := startPrivileged(t)
	below := peer.Descendants(p.pid)
	if len(below) != 4 {
		t.Fatalf("below pmcd are %v", below)
	}
	for _, step := range []struct {
		pid int
		sig syscall.Signal
	}{{p.pid, syscall.SIGSTOP}, {p.root, syscall.SIGKILL}} {
		if err := syscall.Kill(step.pid, step.sig); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range below {
		if !peer.Until(peer.Hangs, func() bool { return !b.Alive() }) {
			t.Errorf("%s, process %d, still runs", b.Name, b.PID)
		}
	}
	if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.answers("simple.numfetch", true)
}

// When memory runs out, the kernel kills the root helper last of all, and agents as it
// would without pmcd.
func TestPeerOOMScore(t *testing.T) {
	p := startPrivileged(t)
	score := func(pid int) string {
		return strings.TrimSpace(pmcdtest.Read(fmt.Sprintf("/proc/%d/oom_score_adj", pid)))
	}
	own := score(p.pid)
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-901"), 0); err != nil {
		t.Skip("the score cannot be lowered here: ", err)
	}
	os.WriteFile("/proc/self/oom_score_adj", []byte(own), 0)
	if got := score(p.root); got != "-900" {
		t.Errorf("the root helper has %s", got)
	}
	for name, pid := range pmcdtest.Children(p.root) {
		if got := score(pid); got != own {
			t.Errorf("%s has %s, pmcd %s", name, got, own)
		}
	}
}

// While pmcd or its root helper have no descriptors left agents cannot be started.
// Both go on, and start them when there are some again.
func TestPeerStartWithoutDescriptors(t *testing.T) {
	p := startPrivileged(t, "PMCD_RESTART_AGENTS=0") // an agent that is killed stays down until a reload
	failures := func() int { return strings.Count(pmcdtest.Read(p.At("log/pmcd.log")), `cannot start "simple" agent`) }
	limitTo := func(pid, n int) (was int) {
		t.Helper()
		was, err := pmcdtest.SoftLimit(pid, n)
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	failed := 0
	for _, pid := range []int{p.pid, p.root} {
		limit := limitTo(pid, -1)
		for room := range 12 {
			p.kill("pmdasimple")
			p.answers("simple.numfetch", false)
			before := failures()
			limitTo(pid, pmcdtest.DescriptorLimit(pid, room))
			p.reload()
			peer.Until(4*time.Second, func() bool { return failures() > before || p.agent("pmdasimple") != 0 })
			if failures() > before {
				failed++
			}
			limitTo(pid, limit)
			p.reload()
			p.answers("simple.numfetch", true)
			if pmcdtest.Children(p.pid)[roothelper.Name] != p.root {
				t.Fatalf("with %d descriptors the root helper has ended", room)
			}
		}
	}
	if failed < 4 {
		t.Errorf("%d starts failed", failed)
	}
}
