package shared_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Agents share a process, which ends with the last of them. A new one starts then.
func TestAgents(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	if one.PID() != two.PID() || one.PID() == os.Getpid() {
		t.Errorf("the processes are %d and %d; this one is %d", one.PID(), two.PID(), os.Getpid())
	}
	one.mustStop()
	one.ends(0)
	two.answers("on")
	again := h.mustStart(0)
	if again.PID() != two.PID() {
		t.Errorf("the process was %d, and is %d", two.PID(), again.PID())
	}
	two.pipes.Close() // as pmcd does
	two.ends(0)
	again.stop()
	testutil.WaitEnded(t, again.PID())
	if third := h.mustStart(1); third.PID() == again.PID() {
		t.Error("the process that has ended is used")
	}
	if len(h.log) > 0 {
		t.Errorf("logged: %s", <-h.log)
	}
}

// An agent that ends by itself leaves the others alone.
func TestAgentEnds(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	one.send("fail")
	one.ends(7 << 8)
	two.answers("on")
	if again := h.mustStart(0); again.PID() != two.PID() {
		t.Errorf("the process was %d, and is %d", two.PID(), again.PID())
	}
}

// While an agent hangs in a call, the others go on.
func TestAgentHangs(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	one.answers("hang")
	two.answers("on")
}

// What must not share a process does not.
func TestNotSharable(t *testing.T) {
	h := newHarness(t)
	h.mustStart(0)
	if _, err := h.start(2); err == nil || errors.Is(err, shared.ErrFailed) {
		t.Errorf("%v, want that it does not share a process", err)
	}
}

// After a failure of the process, all agents have its status, and get another process.
func TestProcessFails(t *testing.T) {
	for _, tt := range []struct {
		name     string
		stopTime time.Duration // which the process has to end when an agent does not
		fail     func(a *agent)
		status   syscall.WaitStatus
		log      string
	}{
		{"killed", 0, func(a *agent) { syscall.Kill(a.PID(), syscall.SIGKILL) }, 9, "has ended: signal 9 (SIGKILL), sent by a user or the out-of-memory killer"},
		{"crash", 0, func(a *agent) { a.send("crash") }, 2 << 8, "has ended: exit code 2"},
		{"does not end", 20 * time.Second, func(a *agent) {
			a.answers("hang")
			a.mustStop()
		}, 3 << 8, "has ended: exit code 3"},
		{"stopped", 0, func(a *agent) {
			a.suspend()
			a.mustStop()
		}, 9, "does not answer and is killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.SetTimes(20*time.Second, tt.stopTime)
			one, two := h.mustStart(0), h.mustStart(1)
			tt.fail(one)
			one.ends(tt.status)
			two.ends(tt.status)
			h.alone()
			h.logs(fmt.Sprintf("pmcd-agents(%d) %s; ", one.PID(), tt.log))
		})
	}
}

// A process that does not end by SIGKILL, because it is blocked in the kernel, is left alone.
func TestProcessBlocked(t *testing.T) {
	h := newHarness(t)
	var blocked blockedProcess
	h.Host = shared.NewHost(func(socket *os.File) (_ roothelper.AgentProcess, err error) {
		blocked.AgentProcess, err = h.startProcess(socket)
		return &blocked, err
	}, func(line string) { h.log <- line })
	one := h.mustStart(0)
	defer func() { // it goes on
		blocked.AgentProcess.Stop(t.Context())
		<-one.Done()
	}()
	one.suspend()
	one.stop()
	h.alone()
	h.logs(fmt.Sprintf("pmcd-agents(%d) does not answer and is killed; ", one.PID()))
}

// A blockedProcess is not ended by Stop.
type blockedProcess struct{ roothelper.AgentProcess }

func (*blockedProcess) Stop(context.Context) {}

// If the process fails before it has started an agent, its agents get a process each, too.
func TestProcessStartFails(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		startTime    time.Duration
		log          string
	}{
		{"ends", "exit 7", 20 * time.Second, "has ended: exit code 7"},
		{"does not answer", "exec sleep 1000", time.Millisecond, "does not answer and is killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t)
			h.spec.Path, h.spec.Argv = "/bin/sh", []string{"sh", "-c", tt.script}
			h.SetTimes(tt.startTime, time.Second)
			h.alone()
			if len(h.pids) != 1 {
				t.Fatalf("processes %d were started, want one", h.pids)
			}
			h.logs(fmt.Sprintf("pmcd-agents(%d) %s; ", h.pids[0], tt.log))
			testutil.WaitEnded(t, h.pids[0])
		})
	}
}

// SIGTERM ends the process in order. It is no failure.
func TestTerminated(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	syscall.Kill(one.PID(), syscall.SIGTERM)
	one.ends(15)
	two.ends(15)
	testutil.WaitEnded(t, one.PID())
	if again := h.mustStart(0); again.PID() == one.PID() {
		t.Error("the process that has ended is used")
	}
	if len(h.log) > 0 {
		t.Errorf("logged: %s", <-h.log)
	}
}

// The process ends when the Host's process does.
func TestConnectionEnds(t *testing.T) {
	h := newHarness(t)
	var p *child.Process
	client, err := roothelper.Connect(func(socket *os.File) (err error) {
		self, _ := os.Executable()
		conf := t.TempDir() + "/conf"
		if err := os.WriteFile(conf, []byte("one 10 dso one_init /none\n"), 0o600); err != nil {
			return err
		}
		p, err = child.Start(child.Spec{Argv: []string{shared.Name}, Path: self, Stderr: os.Stderr, Files: []*os.File{socket},
			Env: append(os.Environ(), serveVar+"="+conf, "GORACE=atexit_sleep_ms=0")})
		return err
	}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := child.NewStderr(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	if _, err := client.Start(t.Context(), &h.agents[0], stderr.File()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	client.Close(ctx)
	<-p.Done()
	if p.Status() != 0 {
		t.Errorf("status %#x, want 0", p.Status())
	}
	p.Stop(ctx)
}
