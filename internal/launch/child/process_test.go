package child

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
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
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

// A child gets the standard input and the environment of its Spec.
func TestStdinAndEnv(t *testing.T) {
	t.Setenv("INHERITED", "x")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte("input"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, "input x."},
		{[]string{"OWN=y"}, "input y."},
		{[]string{}, "input ."},
	} {
		in.Seek(0, io.SeekStart)
		out.Truncate(0)
		out.Seek(0, io.SeekStart)
		p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "/bin/cat; echo \" $INHERITED$OWN.\""}, Stdin: in, Stderr: out, Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		stop(p, time.Second)
		if got, _ := os.ReadFile(out.Name()); strings.TrimSpace(string(got)) != c.want {
			t.Errorf("with the environment %q: got %q, want %q", c.env, got, c.want)
		}
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
		{"ulimit -c $(ulimit -H -c); kill -QUIT $$", syscall.WaitStatus(syscall.SIGQUIT)},
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

// setStopTimes sets how long Stop waits before SIGTERM and SIGKILL until t ends. After that it
// waits as long as necessary.
func setStopTimes(t *testing.T, eof, term time.Duration) {
	e, m, k := eofTime, termTime, killTime
	t.Cleanup(func() { eofTime, termTime, killTime = e, m, k })
	eofTime, termTime, killTime = eof, term, testutil.Hangs
}

func kill(pid int) { syscall.Kill(pid, syscall.SIGKILL) }

// Stop ends a child by closing its pipes, else by SIGTERM, else by SIGKILL, and
// ends the processes that the child has started.
func TestStop(t *testing.T) {
	tests := []struct {
		name, script string
		status       syscall.WaitStatus
		eof, term    time.Duration // how long Stop waits
	}{
		{"ends at end of file", "echo $$; exec cat >/dev/null", 0, testutil.Hangs, 0},
		{"has ended", "sleep 3600 & echo $!; exit 7", 7 << 8, testutil.Hangs, 0},
		{"is ended by SIGTERM", "echo $$; exec sleep 3600", syscall.WaitStatus(syscall.SIGTERM), 0, testutil.Hangs},
		{"exits at SIGTERM", "trap 'exit 3' TERM; sleep 3600 & echo $!; wait", 3 << 8, 0, testutil.Hangs},
		{"is in another group", "exec perl -e '$| = 1; setpgrp(0, getpgrp(getppid())) or die; $SIG{TERM} = sub { exit 4 }; print \"$$\\n\"; sleep 3600'", 4 << 8, 0, testutil.Hangs},
		{"ignores SIGTERM", "trap '' TERM; sleep 3600 & echo $!; wait", syscall.WaitStatus(syscall.SIGKILL), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.script, "perl") {
				testutil.NeedProgram(t, "perl")
			}
			setStopTimes(t, tt.eof, tt.term)
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
			p.Stop(context.Background())
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

// Stop gives the child time to end before SIGTERM and before SIGKILL. It returns in any
// case, and sends SIGKILL without a wait when the context ends.
func TestStopTimes(t *testing.T) {
	const ms, never = time.Millisecond, time.Hour
	for _, tt := range []struct {
		name    string
		ends    time.Duration // of the child
		ctx     time.Duration // until its end
		returns time.Duration
		first   syscall.Signal
	}{
		{"ends at end of file", 300 * ms, never, 300 * ms, syscall.SIGKILL}, // for the rest of the group
		{"ends at SIGTERM", 1400 * ms, never, 1400 * ms, syscall.SIGTERM},
		{"does not end", never, never, 2000 * ms, syscall.SIGTERM},
		{"the context ends before SIGTERM", never, 100 * ms, 600 * ms, syscall.SIGTERM}, // SIGKILL follows at once
		{"the context ends after SIGTERM", never, 700 * ms, 1200 * ms, syscall.SIGTERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The signals go to this process, and the first one ends it.
			target := start(t, true, "exec sleep 3600")
			synctest.Test(t, func(t *testing.T) {
				p := &Process{cmd: target.cmd, done: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
				time.AfterFunc(tt.ends, func() { close(p.done) })
				go func() {
					defer close(p.reaped)
					<-p.reap
				}()
				ctx, cancel := context.WithTimeout(t.Context(), tt.ctx)
				defer cancel()
				began := time.Now()
				p.Stop(ctx)
				if took := time.Since(began); took != tt.returns {
					t.Errorf("Stop took %v, want %v", took, tt.returns)
				}
			})
			<-target.Done()
			if got := target.Status().Signal(); got != tt.first {
				t.Errorf("the first signal is %v, want %v", got, tt.first)
			}
		})
	}
}

// A child that has ended is not reaped before Stop.
func TestNotReapedBeforeStop(t *testing.T) {
	setStopTimes(t, 0, 0)
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

// A script without an interpreter is executed by the shell, as by execvp(3) for C pmcd.
func TestScriptWithoutInterpreter(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir)
	agent := filepath.Join(dir, "agent")
	for _, first := range []string{"", "#!\n", "# a comment\n"} {
		if err := os.WriteFile(agent, []byte(first+"read line; echo $0 $* $line"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, spec := range []Spec{
			{Argv: []string{agent, "-d", "7"}},
			{Argv: []string{"agent", "-d", "7"}},
			{Argv: []string{"x", "-d", "7"}, Path: agent},
		} {
			spec.Pipes, spec.Stderr = true, os.Stderr
			p, err := Start(spec)
			if err != nil {
				t.Errorf("%q, %v: %v", first, spec.Argv, err)
				continue
			}
			p.Pipes.Write([]byte("input\n"))
			out, _ := io.ReadAll(p.Pipes)
			if want := agent + " -d 7 input\n"; string(out) != want {
				t.Errorf("%q, %v: got %q, want %q", first, spec.Argv, out, want)
			}
			stop(p, time.Second)
		}
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
		testutil.Missing(t, "no non-blocking pidfds: ", err)
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
