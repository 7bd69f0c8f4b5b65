package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/systemd"
)

// A Go program cannot fork: pmcd goes to the background by running itself
// again. The process that is to stay knows that it is that by parentVar, which
// has the process id of the one that waits for it, and has a pipe to it as its
// standard input: other descriptors are those of socket activation.
const parentVar = "PMCD_BACKGROUND"

// startInBackground runs this program again, with the same arguments and the
// same name, as scripts look for that. It returns when the new process has
// clients greeted, or with an exit code that says that it does not.
func startInBackground(stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "pmcd: cannot run in the background: %v\n", err)
		return cli.NotStarted(stderr)
	}
	self, err := os.Executable() // its name becomes that of the process
	if err != nil {
		return fail(err)
	}
	if err := sealForBackground(); err != nil {
		return fail(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(self)
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), parentVar+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = w, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fail(err)
	}
	go func() { // ends with the program
		for sig := range signals {
			if sig != syscall.SIGHUP { // which is for all that are called pmcd
				cmd.Process.Signal(sig)
			}
		}
	}()
	said, _ := io.ReadAll(io.LimitReader(r, maxFailure+1))
	if string(said) == serving {
		return cli.ExitOK
	}
	if len(said) > 0 { // else it has said so itself
		fmt.Fprintf(stderr, "pmcd: %s\n", said)
		cli.NotStarted(stderr)
	}
	cmd.Wait()
	return cmp.Or(max(cmd.ProcessState.ExitCode(), 0), cli.ExitError)
}

// sealForBackground keeps descriptors that happen to be open from a process that
// runs for months. Those of socket activation (sd_listen_fds(3)) are for it.
func sealForBackground() error {
	if err := child.SetCloexecAll(); err != nil {
		return err
	}
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil
	}
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for fd := 3; fd < 3+n; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("LISTEN_FDS is %d, but descriptor %d: %w", n, fd, err)
		}
	}
	return nil
}

// What the process in the background says: serving, or why it does not.
const (
	serving    = "serving\n"
	maxFailure = 4 << 10 // bytes
)

// A launcher is the process that waits for this one. A nil launcher is none.
type launcher struct {
	pipe *os.File
	pid  int
	// main says that the service manager has started it itself, as the main
	// process of the service, and not by a script.
	main bool
}

// waiting returns the launcher of this process. What makes it one is removed
// from the environment, and from the standard input.
func waiting() (*launcher, error) {
	parent, ok := os.LookupEnv(parentVar)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(parentVar); err != nil {
		return nil, err
	}
	if parent != strconv.Itoa(os.Getppid()) {
		return nil, nil // somebody else's, or it has not waited
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
	l := &launcher{pipe: os.NewFile(uintptr(fd), "launcher"), pid: os.Getppid()}
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

// serving lets the launcher end.
func (l *launcher) serving() { l.say(serving) }

// await returns when the launcher has ended and this process is the child of
// another one, or after some time: it may have been stopped.
func (l *launcher) await(most time.Duration) {
	if l == nil {
		return
	}
	end := time.NewTimer(most)
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

// announce lets the launcher end and tells the service manager that this
// process is the main one, in the order that the manager needs. Clients are
// greeted after it: the script of PCP's unit ends when one was greeted, and the
// service must not end with it.
//
// A process becomes the manager's child when the launcher has ended. One that is
// said to be the main process before is not watched as well: systemd logs that
// it is "not our child". But if the launcher itself is the main process, the
// service ends with it unless there is another main process by then.
func announce(n *systemd.Notifier, l *launcher) {
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
func (l *launcher) failed(why string) { l.say(strings.TrimSpace(why[:min(len(why), maxFailure)])) }

func (l *launcher) say(text string) {
	if l != nil {
		l.pipe.WriteString(text)
		l.pipe.Close()
	}
}

// reportFailure reports why pmcd has not started to the process that waits for this
// one, and in the file of -x (pmcd(1)). If fatal, the name of that file, is "", it is
// the terminal, unless a process waits. out is nil if there is no log yet.
func reportFailure(why error, fatal string, out *logging.File, waiter *launcher) {
	logged := out != nil && out.Opened && isRegular(out.Path) // a device or a FIFO cannot be copied
	if logged {
		waiter.failed(fmt.Sprintf("%v (see %s)", why, out.Path))
	}
	path := fatal
	if path == "" {
		if waiter != nil || !logged {
			return // it has been said on the standard error output
		}
		path = "/dev/tty"
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOCTTY, 0o666)
	if err != nil {
		return // there may be no terminal
	}
	defer f.Close()
	fmt.Fprint(f, "NOTE: pmcd not started due to errors!  ")
	if !logged {
		fmt.Fprintln(f, why)
		return
	}
	log, err := os.Open(out.Path)
	if err != nil {
		fmt.Fprintln(f, why)
		return
	}
	defer log.Close()
	fmt.Fprintf(f, "Log file %q contains ...\n", out.Path)
	io.Copy(f, log)
}

func isRegular(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}
