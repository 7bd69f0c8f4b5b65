package fuzztest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
)

// start starts pmcd and all around it.
func (e *episode) start() {
	t := e.T
	box := roottest.Listen(t, e.At("var/pmcd/root.socket"))
	box.Set(boxName, roottest.Container{PID: os.Getpid(), Host: "boxed", Cgroup: "docker/box"})
	var err error
	if e.external, err = listenExternal(agent{domain: domainExternal, name: liarName(domainExternal)}, e.At("agents/external.sock")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.external.close)

	args := []string{"-f"}
	if e.privileged {
		args = []string{"-F", "-U", daemonUser}
	}
	if e.watch {
		args = append(args, "--watch")
	}
	seconds := func(d time.Duration) string { return fmt.Sprint(int(d.Seconds())) }
	e.cmd = e.Command(append(args, "-t", seconds(requestTimeout), "-q", seconds(handshakeTimeout), "--late-grace", seconds(lateGrace))...)
	e.cmd.Env = append(e.cmd.Env, "PMCD_ROOT_AGENT=0", "PCP_VAR_DIR="+e.At("var"), "PCP_TMP_DIR="+e.At("tmp"), "PMCD_RESTART_AGENTS=")
	if e.privileged {
		manager := pmcdtest.NewManager(t, e.At("run/notify"))
		e.cmd.Env = append(e.cmd.Env, "NOTIFY_SOCKET="+e.At("run/notify"), fmt.Sprintf("WATCHDOG_USEC=%d", watchdogTime.Microseconds()))
		defer func() { go e.watchdog(manager) }() // ends with the test
	}
	out, err := os.Create(e.At("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	e.cmd.Stdout, e.cmd.Stderr = out, out
	if err := peer.StartAndWait(e.cmd, e.exited); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.kill)
	go e.watchProcess()

	if !peer.Until(60*time.Second, func() bool {
		conn, err := pmcdtest.Greeted(e.sock(), peer.Hangs)
		if err == nil {
			conn.Close()
		}
		return err == nil || e.failed()
	}) {
		e.fail("pmcd does not greet")
		return
	}
	r := e.awaitReady(60 * time.Second)
	if r == nil {
		return
	}
	for _, addr := range r.Listening {
		if a, ok := strings.CutPrefix(addr, "tcp:"); ok {
			e.tcp = a
		}
	}
	e.root = pmcdtest.Children(e.cmd.Process.Pid)[roothelper.Name]
	if e.tcp == "" || e.privileged != (e.root != 0) {
		e.fail("TCP address %q, root helper %d", e.tcp, e.root)
	}
}

// kill ends pmcd if it still runs, and what it has left.
func (e *episode) kill() {
	below := peer.Descendants(e.cmd.Process.Pid)
	e.cmd.Process.Kill()
	<-e.exited
	for _, p := range below {
		if p.Alive() {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

// watchProcess fails the episode when pmcd exits, or when one of its processes reports
// a data race or a panic.
func (e *episode) watchProcess() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-e.exited:
			if !e.ending.Load() {
				e.fail("pmcd has ended")
			}
			return
		case <-e.ctx.Done():
			return
		case <-tick.C:
			e.peak.Store(max(e.peak.Load(), int64(rss(e.cmd.Process.Pid))))
			if e.complaint() != "" {
				e.fail("a process of pmcd has reported a fault")
				return
			}
		}
	}
}

// watchdog fails the episode if pmcd does not notify the watchdog in time, until pmcd says that it
// ends: then systemd waits for the end of the process.
func (e *episode) watchdog(m *pmcdtest.Manager) {
	last := time.Now()
	for {
		lines, err := m.Within(time.Second)
		switch {
		case err == nil && lines[0] == "WATCHDOG=1":
			last = time.Now()
		case err == nil && slices.Contains(lines, "STOPPING=1"), errors.Is(err, net.ErrClosed), e.ctx.Err() != nil:
			return
		case time.Since(last) > watchdogTime:
			e.fail("pmcd has not notified the watchdog for %v", watchdogTime)
			e.cmd.Process.Signal(syscall.SIGQUIT) // at once: what hangs may not hang later
			return
		}
	}
}
