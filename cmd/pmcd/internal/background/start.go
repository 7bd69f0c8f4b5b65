// Package background is pmcd's daemon mode. It has the process that starts the daemon and
// waits for it, and the messages between the two. It also has the daemon's PID file and the
// report of a start that failed.
package background

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/internal/launch/child"
)

// parentVar is the environment variable by which a process knows that it is the one in
// the background. A Go program cannot fork: pmcd goes to the background by running
// itself again. The value is the process id of the launcher, which waits. The standard
// input is a pipe to the launcher: other descriptors are those of socket activation.
const parentVar = "PMCD_BACKGROUND"

// Start runs this program again in the background, with the same arguments and the
// same name, because scripts look for the name. It returns the exit code of this
// process when the new one is about to greet clients, or has failed.
func Start(stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "pmcd: cannot run in the background: %v\n", err)
		return cli.NotStarted(stderr)
	}
	self, err := os.Executable() // its name becomes that of the process
	if err != nil {
		return fail(err)
	}
	if err := setCloexec(); err != nil {
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
			if sig != syscall.SIGHUP { // which scripts send to all processes with the name pmcd
				cmd.Process.Signal(sig)
			}
		}
	}()
	said, _ := io.ReadAll(io.LimitReader(r, maxFailure+1))
	if string(said) == serving {
		return cli.ExitOK
	}
	if len(said) > 0 { // else it has printed why it has failed
		fmt.Fprintf(stderr, "pmcd: %s\n", said)
		cli.NotStarted(stderr)
	}
	cmd.Wait()
	return cmp.Or(max(cmd.ProcessState.ExitCode(), 0), cli.ExitError)
}

// setCloexec sets the close-on-exec flag of all descriptors except those of socket
// activation (sd_listen_fds(3)). Otherwise the daemon would keep descriptors open that this
// process has inherited by accident.
func setCloexec() error {
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
