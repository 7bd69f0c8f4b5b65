package child

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/internal/testutil"
	"golang.org/x/sys/unix"
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

// A child has the standard descriptors and inherits no others.
func TestNoDescriptorsLeak(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := SetCloexecAll(); err != nil {
		t.Fatal(err)
	}
	start(t, true, "cat") // the next child must not inherit its pipes
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

// The status before a child is reaped is the one that wait4(2) returns.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		script string
		status syscall.WaitStatus // without the core flag
	}{
		{"exit 0", 0},
		{"exit 5", 5 << 8},
		{"exit 255", 255 << 8},
		{"kill -9 $$", syscall.WaitStatus(syscall.SIGKILL)},
		{"ulimit -c unlimited; kill -QUIT $$", syscall.WaitStatus(syscall.SIGQUIT)},
		// A stopped process has not ended.
		{"p=$$; (kill -STOP $p; kill -CONT $p; kill -TERM $p) & wait; sleep 60", syscall.WaitStatus(syscall.SIGTERM)},
	} {
		p := start(t, true, "cd '"+t.TempDir()+"'; "+tt.script)
		<-p.Done()
		ws := p.Status()
		if ws&^0x80 != tt.status {
			t.Errorf("%s: status %#x, want %#x", tt.script, ws, tt.status)
		}
		stop(p, time.Second)
		if reaped := p.cmd.ProcessState.Sys(); reaped != ws {
			t.Errorf("%s: status %#x, and %#x when it is reaped", tt.script, ws, reaped)
		}
	}
}

func kill(pid int) { syscall.Kill(pid, syscall.SIGKILL) }

// Stop ends a child by closing its pipes, else by SIGTERM, else by SIGKILL, and
// ends the processes that the child has started.
func TestStop(t *testing.T) {
	tests := []struct {
		name, script string
		status       syscall.WaitStatus
		least, most  time.Duration
	}{
		{"ends at end of file", "echo $$; exec cat >/dev/null", 0, 0, 5 * time.Second},
		{"has ended", "sleep 60 & echo $!; exit 7", 7 << 8, 0, 5 * time.Second},
		{"is ended by SIGTERM", "echo $$; exec sleep 60", syscall.WaitStatus(syscall.SIGTERM), eofTime, 5 * time.Second},
		{"exits at SIGTERM", "trap 'exit 3' TERM; sleep 60 & echo $!; wait", 3 << 8, eofTime, 5 * time.Second},
		{"is in another group", "exec perl -e '$| = 1; setpgrp(0, getpgrp(getppid())) or die; $SIG{TERM} = sub { exit 4 }; print \"$$\\n\"; sleep 60'",
			4 << 8, eofTime, eofTime + termTime},
		{"ignores SIGTERM", "trap '' TERM; sleep 60 & echo $!; wait", syscall.WaitStatus(syscall.SIGKILL), eofTime + termTime, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("perl"); err != nil && strings.Contains(tt.script, "perl") {
				t.Skip(err)
			}
			p := start(t, true, tt.script)
			line := make([]byte, 20)
			n, err := p.Pipes.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			p.Stop(context.Background())
			if took := time.Since(began); took < tt.least || took > tt.most {
				t.Errorf("took %v, want %v to %v", took, tt.least, tt.most)
			}
			<-p.Done()
			if p.Status() != tt.status {
				t.Errorf("status %#x, want %#x", p.Status(), tt.status)
			}
			testutil.WaitEnded(t, pid)
			if _, err := os.Stat("/proc/" + strconv.Itoa(p.PID())); err == nil {
				t.Error("the child is not reaped")
			}
			p.Stop(context.Background()) // a second call does nothing
		})
	}
}

// When the context ends, Stop kills the child at once.
func TestStopAtOnce(t *testing.T) {
	p := start(t, true, "trap '' TERM; echo; sleep 60")
	p.Pipes.Read(make([]byte, 1))
	began := time.Now()
	stop(p, 50*time.Millisecond)
	if took := time.Since(began); took > eofTime {
		t.Errorf("took %v", took)
	}
	if ws := p.Status(); ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, want signal 9", ws)
	}
}

// A child that has ended is not reaped before Stop.
func TestNotReapedBeforeStop(t *testing.T) {
	p := start(t, true, "exit 1")
	<-p.Done()
	if err := syscall.Kill(p.PID(), 0); err != nil {
		t.Errorf("the child is reaped before Stop: %v", err)
	}
	p.Stop(context.Background())
	if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
		t.Errorf("the child is not reaped by Stop: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd")
	if _, err := Start(Spec{Argv: []string{"/no/such/agent"}, Pipes: true, Stderr: os.Stderr}); err == nil {
		t.Error("a program that does not exist was started")
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before) {
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
}

// Waiting for a child blocks no thread, if the kernel has non-blocking pidfds.
func TestWaitingTakesNoThread(t *testing.T) {
	fd, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK)
	if err != nil {
		t.Skip("this kernel has no non-blocking pidfds: ", err)
	}
	unix.Close(fd)
	threads := func() int {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	const children = 40
	before := threads()
	for range children {
		start(t, true, "exec cat")
	}
	if more := threads() - before; more > children/2 {
		t.Errorf("%d more threads for %d children", more, children)
	}
}
