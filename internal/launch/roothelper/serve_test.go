package roothelper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestStart(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\nexits 2 pipe binary sh -c \"exit 5\"\nsock 3 socket inet 1 cat\nbad 4 pipe binary /no/such/agent\n")
	p, err := r.start(list[0])
	must(t, err)
	checkEcho(t, p)
	if err := p.Pipes.SetReadDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := p.Pipes.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read after its deadline: %v", err)
	}
	select {
	case <-p.Done():
		t.Fatal("the process has ended")
	default:
	}
	p.Pipes.Close() // the end of the file ends it, and Stop waits for a short time only
	<-p.Done()
	r.stop(p)
	if ws := p.Status(); !ws.Exited() || ws.ExitStatus() != 0 || alive(p.PID()) {
		t.Errorf("status %v, alive %v", ws, alive(p.PID()))
	}

	p, err = r.start(list[1])
	must(t, err)
	<-p.Done()
	if ws := p.Status(); ws.ExitStatus() != 5 {
		t.Errorf("status %v, want 5", ws)
	}

	p, err = r.start(list[2])
	must(t, err)
	if p.Pipes != nil {
		t.Error("a socket agent has pipes")
	}
	<-p.Done() // cat reads the end of its standard input

	r.wantRefused(list[3], "no such file")
	must(t, r.close())
}

// When the context of Stop ends, a process that ignores SIGTERM is killed.
func TestStopNow(t *testing.T) {
	r, list := newHarness(t, "stays 1 pipe binary sh -c \"trap '' TERM; echo ready; while :; do sleep 1; done\"\n")
	p, err := r.start(list[0])
	must(t, err)
	if _, err := io.ReadFull(p.Pipes, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Stop(ctx)
	<-p.Done()
	if ws := p.Status(); ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want signal 9", ws)
	}
}

func TestNotMoreThanFour(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	var ps []*Process
	for range maxProcesses {
		p, err := r.start(list[0])
		must(t, err)
		ps = append(ps, p)
	}
	r.wantRefused(list[0], "already has 4 processes")
	r.stop(ps[0])
	_, err := r.start(list[0])
	must(t, err)
}

// Agents that were started and stopped leave no descriptors and no goroutines.
func TestManyStarts(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\nends 2 pipe binary true\n")
	one := func(i int) {
		t.Helper()
		stderr, err := child.NewStderr(io.Discard)
		must(t, err)
		p, err := r.Start(t.Context(), &list[i%2], stderr.File())
		stderr.Started()
		must(t, err)
		if i%2 == 0 {
			checkEcho(t, p)
		} else {
			<-p.Done()
		}
		r.stop(p)
		stderr.Close()
	}
	one(0)
	fds, goroutines := len(fdList()), runtime.NumGoroutine()
	for i := range 1000 {
		one(i)
	}
	testutil.Eventually(t, fmt.Sprintf("no more than %d descriptors and %d goroutines", fds, goroutines), func() bool {
		return len(fdList()) <= fds && runtime.NumGoroutine() <= goroutines
	})
}

// When the daemon ends, all agents end, and the processes that they have started.
func TestDaemonGone(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\nstays 2 pipe binary sh -c \"trap '' TERM HUP; sleep 3600 & echo $!; while :; do sleep 1; done\"\n")
	var pids []int
	for _, a := range list {
		p, err := r.start(a)
		must(t, err)
		pids = append(pids, p.PID())
		if a.Domain == 2 {
			var pid int
			if _, err := fmt.Fscan(p.Pipes, &pid); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	must(t, r.close())
	for _, pid := range pids {
		testutil.WaitEnded(t, pid)
	}
}

// A daemon that is killed leaves messages unread, so the connection is reset. That is
// an end like any other.
func TestDaemonKilled(t *testing.T) {
	daemon, other, err := pair()
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- Serve(other, Config{}) }()
	must(t, daemon.send(message{kind: msgAskHostName, id: 1})) // is refused
	raw, err := daemon.SyscallConn()
	must(t, err)
	must(t, raw.Read(func(fd uintptr) bool { // until the answer is there
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN
	}))
	daemon.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
