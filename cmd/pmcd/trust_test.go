package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/testutil"
)

// rightsOf says which user an agent has become, "" if there is no such process.
func (p *privileged) rightsOf(name string) string {
	switch got := strings.TrimSpace(pmcdtest.IDs(p.agent(name))); {
	case strings.HasPrefix(got, "uid 0 0 0 0 "):
		return "root"
	case got == p.user:
		return "pcp"
	default:
		return got
	}
}

// runsAs fails the test unless an agent that answers has the rights of a user, and
// nothing else keeps it.
func (p *privileged) runsAs(metric, agent, user string) {
	p.T.Helper()
	p.answers(metric, true)
	if got := p.rightsOf(agent); got != user {
		p.T.Errorf("%s runs as %s, want %s", agent, got, user)
	}
}

// logs waits for a text in the log.
func (p *privileged) logs(text string) {
	p.T.Helper()
	if !peer.Until(peer.Hangs, func() bool { return strings.Contains(pmcdtest.Read(p.At("log/pmcd.log")), text) }) {
		p.T.Errorf("%q is not in the log", text)
	}
}

// report returns the state of pmcd, and what pmcdctl status prints.
func (p *privileged) report() (*ctl.Report, string) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	r, err := ctl.Ask(ctx, ctl.Path(p.At("run/sock")))
	if err != nil {
		p.T.Fatal(err)
	}
	pmcdctl, err := peer.Ctl()
	if err != nil {
		p.T.Fatal(err)
	}
	cmd := exec.Command(pmcdctl, "status", "-s", p.At("run/sock"))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	text, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) { // its exit code is for problems
		p.T.Fatal(err)
	}
	return r, string(text)
}

// The same rule at the start, at a reload and at a restart: what others than root
// decide on runs as the user of pmcd.
func TestPeerUntrusted(t *testing.T) {
	p := startPrivileged(t)
	p.runsAs("simple.numfetch", "pmdasimple", "root")
	for _, c := range []struct {
		name       string
		do, undo   func() error
		path, what string
		all        bool
	}{
		{"the agent can be written to",
			func() error { return os.Chmod(p.At("agent"), 0o757) }, func() error { return os.Chmod(p.At("agent"), 0o755) },
			p.At("agent"), " is writable by all users", false},
		{"the agent belongs to another user",
			func() error { return os.Chown(p.At("agent"), 65534, 0) }, func() error { return os.Chown(p.At("agent"), 0, 0) },
			p.At("agent"), " is writable by user nobody", false},
		{"the configuration can be written to",
			func() error { return os.Chmod(p.At("conf"), 0o666) }, func() error { return os.Chmod(p.At("conf"), 0o644) },
			"conf", " is writable by all users", true},
		{"the directory can be written to",
			func() error { return os.Chmod(p.Dir, 0o777) }, func() error { return os.Chmod(p.Dir, 0o755) },
			p.Dir, " is writable by all users", true},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		p.kill("pmdasimple")
		p.reload()
		p.runsAs("simple.numfetch", "pmdasimple", "pcp")
		p.logs(c.path + c.what + "; to run ")
		p.logs("or set PMCD_TRUST_AGENTS=1 in ")
		r, text := p.report()
		i := slices.IndexFunc(r.Agents, func(a ctl.Agent) bool { return a.Name == "simple" })
		got, prefix := r.Agents[i].Note, "runs as pcp: "
		if c.all {
			got, prefix = strings.Join(r.Problems, "\n"), "all agents run as pcp: "
		}
		if !strings.HasPrefix(got, prefix) || !strings.Contains(got, c.path+c.what) {
			t.Errorf("%s: the status says %q", c.name, got)
		}
		if want := map[bool]string{true: "problem:       all agents run as pcp: ", false: "\nsimple runs as pcp: "}[c.all]; !strings.Contains(text, want) {
			t.Errorf("%s: %q is not in\n%s", c.name, want, text)
		}
		if c.all { // those that cannot do without say so
			p.kill("pmcd-agent: proc")
			p.reload()
			p.runsAs("proc.nprocs", "pmcd-agent: proc", "pcp")
			p.logs("it has no values that only the user of a process may read")
		}
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
		p.kill("pmdasimple")
		p.reload()
		p.runsAs("simple.numfetch", "pmdasimple", "root")
		if c.all {
			p.kill("pmcd-agent: proc")
			p.reload()
			p.runsAs("proc.nprocs", "pmcd-agent: proc", "root")
		}
		if _, text := p.report(); strings.Contains(text, "run as") || strings.Contains(text, "runs as") {
			t.Errorf("%s: it is over, but the status is\n%s", c.name, text)
		}
	}

	// A line that is new is read from the file.
	conf := strings.Replace(pmcdtest.Read(p.At("conf")), "\nsample", "\nother", 1)
	p.Write("conf", strings.Replace(conf, p.At("agent"), p.At("agent")+" x", 1))
	p.kill("pmcd-dso: sample")
	p.reload()
	p.answers("sample.seconds", true)
	p.answers("simple.numfetch", true)
	if agents := pmcdtest.Children(p.root); agents["pmcd-dso: other"] == 0 || agents["pmdasimple"] == 0 {
		t.Errorf("the agents are %v", agents)
	}
}

// Killing pmcd does not help its user: the next pmcd does not run a script of that user
// as root, whatever is put before the script.
func TestPeerUntrustedAtStart(t *testing.T) {
	p := privilegedPlace(t)
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theirs", "sysconfig"} {
		if err := os.Mkdir(p.At(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("theirs/script", "#!/bin/sh\nexec "+simple+" -d 253 -l "+p.At("log/simple.log")+" -U $(id -un)\n")
	pcp, err := privsep.LookUp("pcp")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theirs", "theirs/script"} {
		if err := os.Chmod(p.At(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p.At(name), pcp.UID, pcp.GID); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("conf", "pmcd 2 dso pmcd_init /none\nsimple 253 pipe binary /usr/bin/nice -n 1 "+p.At("theirs/script")+"\nproc 3 dso proc_init /none.so\n")
	p.Write("pmns", "root { pmcd simple proc }\npmcd { numclients 2:0:3 }\nsimple { numfetch 253:0:0 }\nproc { nprocs 3:8:99 }\n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: p.At("run/notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := os.Chmod(p.At("run/notify"), 0o777); err != nil {
		t.Fatal(err)
	}
	why := p.At("theirs") + " is writable by user pcp"
	for range 2 {
		p.start("NOTIFY_SOCKET=" + p.At("run/notify"))
		p.runsAs("simple.numfetch", "pmdasimple", "pcp")
		p.runsAs("proc.nprocs", "pmcd-agent: proc", "root")
		p.logs(`agent "simple" (dom 253) runs as pcp: ` + why + "; to run it as root: chown -h root " + p.At("theirs") + "; or set PMCD_TRUST_AGENTS=1 in ")
		status := ""
		for buf := make([]byte, 4096); !strings.Contains(status, "READY=1"); {
			manager.SetReadDeadline(time.Now().Add(testutil.Hangs))
			n, err := manager.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			status = string(buf[:n])
		}
		if want := "STATUS=serving, 3 of 3 agents ready; simple runs as pcp: " + why; !strings.Contains(status, want) {
			t.Errorf("the manager is told %q, want %q", status, want)
		}
		before := p.agent("pmdasimple")
		p.kill("pmdasimple")
		if !peer.Until(peer.Hangs, func() bool { now := p.agent("pmdasimple"); return now != 0 && now != before }) {
			t.Fatal("the agent is not started again")
		}
		p.runsAs("simple.numfetch", "pmdasimple", "pcp")
		agents := peer.Descendants(p.pid)
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pmcdtest.AwaitEnd(t, p.pid)
		for _, a := range agents {
			if !peer.Until(peer.Hangs, func() bool { return !a.Alive() }) {
				t.Errorf("%s, process %d, still runs", a.Name, a.PID)
			}
		}
	}

	// pmcd -v says so before the start.
	code, text := p.Run("-v")
	if want := `conf:2:1: Warning: agent "simple" runs as pcp: ` + why; code != 0 || !strings.Contains(text, want) {
		t.Errorf("pmcd -v: status %d\n%s", code, text)
	}
	if code, text := p.Run("--verify"); code != 0 || strings.Contains(text, "runs as") {
		t.Errorf("pmcd --verify: status %d\n%s", code, text)
	}
	// The variable in the file of root is in force.
	p.Write("sysconfig/pmcd", "# for pmcd\nPMCD_TRUST_AGENTS=1\n")
	p.start("PCP_SYSCONFIG_DIR=" + p.At("sysconfig"))
	p.runsAs("simple.numfetch", "pmdasimple", "root")
}

// Commands in a name space file are executed as the user that pmcd becomes: other users than
// root may be able to change the file.
func TestPeerNameSpaceCommand(t *testing.T) {
	p := privilegedPlace(t)
	p.Write("conf", "pmcd 2 dso pmcd_init /none\n")
	p.Write("pmns", "root { pmcd }\npmcd {\n#shell 'echo $(id -un) 2:0:3'\n}\n")
	p.start().answers("pmcd.pcp", true)
}
