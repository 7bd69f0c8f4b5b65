package proc

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, pipes bool, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Argv: []string{"sh", "-c", script}, Pipes: pipes, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(p, time.Second) })
	return p
}

func stop(p *Process, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	p.Stop(ctx)
}

// A child has its standard descriptors and no other of ours.
func TestNoDescriptorsLeak(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := Seal(); err != nil {
		t.Fatal(err)
	}
	first := start(t, true, "cat") // its pipes must not be in the second
	_ = first
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, pipes := range []bool{true, false} {
		p, err := Start(Spec{Argv: []string{"sh", "-c", "ls /proc/$$/fd; exec >&-"}, Pipes: pipes, Stderr: log})
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		if pipes {
			out, _ = io.ReadAll(p.Pipes)
			<-p.Done()
		} else {
			<-p.Done()
			out, _ = os.ReadFile(log.Name())
		}
		for _, fd := range strings.Fields(string(out)) {
			if n, err := strconv.Atoi(fd); err != nil || n > 2 {
				if link, err := os.Readlink("/proc/self/fd/" + fd); err == nil {
					t.Errorf("pipes %v: the child has descriptor %s (%s here)", pipes, fd, link)
				} else if n > 2 && n != 10 && n != 255 { // the shell's own
					t.Errorf("pipes %v: the child has descriptor %s", pipes, fd)
				}
			}
		}
		if len(strings.Fields(string(out))) < 3 {
			t.Errorf("pipes %v: the child has %q", pipes, out)
		}
		stop(p, time.Second)
	}
}

func TestStatus(t *testing.T) {
	p := start(t, true, "exit 5")
	<-p.Done()
	if ws := p.Status(); !ws.Exited() || ws.ExitStatus() != 5 {
		t.Errorf("status %v, want exit 5", ws)
	}
	p = start(t, true, "kill -9 $$")
	<-p.Done()
	if ws := p.Status(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want signal 9", ws)
	}
}

// A child ends when its pipes are closed or, if it does not, is killed with
// all that it has started.
func TestStop(t *testing.T) {
	p := start(t, true, "exec cat")
	stop(p, 10*time.Second)
	if ws := p.Status(); !ws.Exited() {
		t.Errorf("status %v, want an exit", ws)
	}

	p = start(t, true, "trap '' TERM; sleep 60 & echo $!; sleep 60; wait")
	line := make([]byte, 20)
	n, err := p.Pipes.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	stop(p, 50*time.Millisecond)
	if ws := p.Status(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want signal 9", ws)
	}
	gone := func() bool { // or not yet reaped by whoever inherits it
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(grandchild) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}
	for deadline := time.Now().Add(5 * time.Second); !gone(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", grandchild)
		}
	}
}

func TestStartFails(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd")
	if _, err := Start(Spec{Argv: []string{"/no/such/agent"}, Pipes: true, Stderr: os.Stderr}); err == nil {
		t.Error("started what does not exist")
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before) {
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
}
