package main

import (
	"golang.org/x/sys/unix"

	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// The manager is told of the start, of a reload and of the end, each at the
// right time, and agents do not get its address.
func TestNotify(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		t.Run(fmt.Sprintf("abstract=%v", abstract), func(t *testing.T) {
			s := pmcdtest.NewService(t, "-F")
			addr := s.Path("notify")
			if abstract {
				addr = "@" + addr
			}
			m := pmcdtest.NewManager(t, addr)
			s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+addr, "WATCHDOG_USEC=100000", "WATCHDOG_PID=1")
			s.Start()
			mainPID := fmt.Sprintf("MAINPID=%d", s.Cmd.Process.Pid)

			if got, want := m.Next(), []string{mainPID, "STATUS=starting agents"}; !slices.Equal(got, want) {
				t.Fatalf("first %q, want %q", got, want)
			}
			s.Greets(s.Path("sock"))
			names, _ := s.Inherited()
			for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
				if slices.Contains(names, name) {
					t.Errorf("the agent has %s", name)
				}
			}
			for fed := 0; fed < 3; fed++ { // an agent that is still starting is no reason not to
				if got, err := m.Within(peer.Hangs); err != nil || !slices.Equal(got, []string{"WATCHDOG=1"}) {
					t.Fatalf("before the agents have started or failed: %q, %v", got, err)
				}
			}

			s.OpenGate()
			ready := []string{"READY=1", mainPID, "STATUS=serving, 1 of 2 agents ready; shy is down"}
			if got := m.Next(); !slices.Equal(got, ready) {
				t.Fatalf("got %q, want %q", got, ready)
			}

			before := monotonic()
			s.Cmd.Process.Signal(syscall.SIGHUP)
			got := m.Next()
			if len(got) != 3 || got[0] != "RELOADING=1" || got[2] != "STATUS=reloading" {
				t.Fatalf("at a reload %q", got)
			}
			usec, err := strconv.ParseInt(strings.TrimPrefix(got[1], "MONOTONIC_USEC="), 10, 64)
			if at := time.Duration(usec) * time.Microsecond; err != nil || at < before.Truncate(time.Microsecond) || at > monotonic() {
				t.Errorf("%s, %v: not between %v and now", got[1], err, before)
			}
			s.OpenGate()
			if got := m.Next(); !slices.Equal(got, ready) {
				t.Fatalf("after a reload %q, want %q", got, ready)
			}

			s.Cmd.Process.Signal(syscall.SIGTERM)
			if got, want := m.Next(), []string{"STOPPING=1", "STATUS=stopping agents"}; !slices.Equal(got, want) {
				t.Errorf("at the end %q, want %q", got, want)
			}
		})
	}
}

// After the start, too, the status says what the agents do.
func TestNotifyFollowsAgents(t *testing.T) {
	s := pmcdtest.NewService(t, "-F")
	m := pmcdtest.NewManager(t, s.Path("notify"))
	s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("notify"))
	// It opens the exchange, and then waits for the gate.
	const creds = `printf '\000\000\000\024\000\000\160\014\000\000\000\001\000\000\000\001\001\002\000\000'` + "\n"
	if err := os.WriteFile(s.Path("agent"), []byte(creds+pmcdtest.AgentScript), 0o666); err != nil {
		t.Fatal(err)
	}
	s.Start()
	mainPID := fmt.Sprintf("MAINPID=%d", s.Cmd.Process.Pid)
	for _, want := range [][]string{
		{mainPID, "STATUS=starting agents"},
		{"READY=1", mainPID, "STATUS=serving, 2 of 2 agents ready"},
	} {
		if got := m.Next(); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	s.OpenGate()
	if got, want := m.Next(), []string{"STATUS=serving, 1 of 2 agents ready; shy is down"}; !slices.Equal(got, want) {
		t.Errorf("after its end %q, want %q", got, want)
	}
	s.Stop()
	if got, want := m.Next(), []string{"STOPPING=1", "STATUS=stopping agents"}; !slices.Equal(got, want) {
		t.Errorf("at the end %q, want %q", got, want)
	}
}

// The daemon is announced as the main process when its launcher has ended and it is
// the child of the manager. But if the launcher is the main process, the daemon is
// announced before the launcher ends.
func TestNotifyMainPID(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("started by the manager itself=%v", direct), func(t *testing.T) {
			p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
			m := pmcdtest.NewManager(t, p.At("notify"))
			p.Write("pmns", "#shell 'cat "+p.At("fifo")+"'\n"+pmcdtest.Read(p.At("pmns")))
			if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			me := ""
			if os.Geteuid() == 0 {
				me = "root"
			}
			cmd := p.Command("-U", me)
			cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+p.At("notify"))
			if direct { // the shell's process becomes pmcd
				cmd.Args = append([]string{"sh", "-c", `SYSTEMD_EXEC_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			// The process in the background reads the name space.
			names, err := os.OpenFile(p.At("fifo"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			// Without a pause the launcher might have ended in time even if the order is wrong.
			launcher := cmd.Process.Pid
			syscall.Kill(launcher, syscall.SIGSTOP)
			defer syscall.Kill(launcher, syscall.SIGCONT)
			if !peer.Until(peer.Hangs, func() bool { return allStopped(launcher) }) {
				t.Fatal("the launcher does not stop")
			}
			names.Close()
			wait := time.Second // no message is expected
			if direct {
				wait = peer.Hangs
			}
			said, err := m.Within(wait)
			if direct == (err != nil) {
				t.Errorf("while the launcher is there: %q, %v", said, err)
			}
			syscall.Kill(launcher, syscall.SIGCONT)
			if err != nil {
				said = m.Next()
			}
			pid := 0
			if _, err := fmt.Sscanf(said[0], "MAINPID=%d", &pid); err != nil || len(said) != 2 || said[1] != "STATUS=starting agents" {
				t.Fatalf("the first message is %q", said)
			}
			defer pmcdtest.AwaitEnd(t, pid)
			defer syscall.Kill(pid, syscall.SIGTERM)
			if parent := pmcdtest.ProcStatus(pid, "PPid"); !direct && parent == strconv.Itoa(launcher) {
				t.Errorf("it is said to be the main process as the child of %s", parent)
			}
			if err := <-ended; err != nil {
				t.Errorf("the launcher: %v", err)
			}
			if said := m.Next(); len(said) != 3 || said[0] != "READY=1" {
				t.Errorf("then %q", said)
			}
		})
	}
}

// monotonic returns the time of the clock that the manager compares with its own.
func monotonic() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// allStopped reports whether no thread of a process runs any more after SIGSTOP:
// the threads stop one after the other.
func allStopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if _, rest, ok := strings.Cut(string(stat), ") "); err != nil || !ok || !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return len(stats) > 0
}

// pmcd serves even if no manager receives its notifications. With -f it sends none.
func TestNotifyWithoutManager(t *testing.T) {
	s := pmcdtest.NewService(t, "-F")
	s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("gone"))
	s.Start()
	s.Greets(s.Path("sock"))
	s.OpenGate()
	if !strings.Contains(s.Read("pmcd.log"), "NOTIFY_SOCKET="+s.Path("gone")) {
		t.Error("the log does not say so")
	}

	s = pmcdtest.NewService(t, "-f")
	m := pmcdtest.NewManager(t, s.Path("notify"))
	s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("notify"))
	s.Start()
	s.Greets(s.Path("sock"))
	if names, _ := s.Inherited(); slices.Contains(names, "NOTIFY_SOCKET") {
		t.Error("the agent has NOTIFY_SOCKET")
	}
	s.OpenGate()
	s.Stop()
	if got, err := m.Within(0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with -f: %q, %v", got, err)
	}
}
