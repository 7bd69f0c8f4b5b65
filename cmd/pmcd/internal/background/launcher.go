package background

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/systemd"
)

// The process in the background writes to the pipe: either serving, or the reason why it has
// not started, of at most maxFailure bytes.
const (
	serving    = "serving\n"
	maxFailure = 4 << 10
)

// A Launcher is the process that has started this one and waits for it. Methods of a
// nil Launcher, which is none, do nothing.
type Launcher struct {
	pipe *os.File
	pid  int
	// main is true if the launcher is the main process of the service: the service
	// manager has started it, and not a script.
	main bool
}

// FindLauncher returns the launcher of this process, or nil if it is not the one in the
// background. It removes parentVar from the environment and the pipe from the standard
// input.
func FindLauncher() (*Launcher, error) {
	parent, ok := os.LookupEnv(parentVar)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(parentVar); err != nil {
		return nil, err
	}
	if parent != strconv.Itoa(os.Getppid()) {
		return nil, nil // the variable is of another process, or the launcher has ended
	}
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := syscall.Dup3(int(null.Fd()), 0, 0); err != nil {
		return nil, err
	}
	// Sockets that were meant for the parent are here.
	if os.Getenv("LISTEN_PID") == parent {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	for _, sig := range []os.Signal{syscall.SIGTTOU, syscall.SIGTTIN, syscall.SIGTSTP} {
		signal.Ignore(sig)
	}
	l := &Launcher{pipe: os.NewFile(uintptr(fd), "launcher"), pid: os.Getppid()}
	l.main = os.Getenv("SYSTEMD_EXEC_PID") == parent || parentOf(l.pid) == 1
	return l, nil
}

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			ppid, _ := strconv.Atoi(strings.TrimSpace(v))
			return ppid
		}
	}
	return 0
}

// serving tells the launcher to end: this process serves.
func (l *Launcher) serving() { l.tell(serving) }

// await returns when the launcher has ended and this process is the child of another
// one, or after a timeout: the launcher may have been stopped.
func (l *Launcher) await(timeout time.Duration) {
	if l == nil {
		return
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for os.Getppid() == l.pid {
		select {
		case <-again.C:
		case <-end.C:
			return
		}
	}
}

// Announce tells the launcher to end and the service manager that this process is the
// main one, in the order that the manager needs. It is called before clients are
// greeted: the script of PCP's unit ends when a client has been greeted, and the
// service must not end with the script.
//
// This process becomes the manager's child when the launcher has ended. If it is named
// as the main process before that, systemd logs that it is "not our child" and does not
// watch it as well. But if the launcher is the main process, the service ends with the
// launcher unless another main process has been named by then.
func (l *Launcher) Announce(n *systemd.Notifier) {
	if n != nil && l != nil && !l.main {
		l.serving()
		l.await(systemd.Timeout)
		n.Serving()
		return
	}
	n.Serving()
	l.serving()
}

// failed tells the launcher why this process ends.
func (l *Launcher) failed(why string) { l.tell(strings.TrimSpace(why[:min(len(why), maxFailure)])) }

func (l *Launcher) tell(text string) {
	if l != nil {
		l.pipe.WriteString(text)
		l.pipe.Close()
	}
}
