// Package child starts agents as child processes, copies their standard error
// output to the log, and ends them.
package child

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A Process is a child.
//
// One goroutine, started by Start, waits until the child has ended. Stop reaps
// the child, and must be called. Until then the kernel does not give the process
// id to another process, so that Stop can signal the process group of that
// number. There is no wait for any child: that would take the exit status from
// other parts of the program.
type Process struct {
	// Pipes are the standard input and output of the child; nil without
	// Spec.Pipes.
	Pipes *Pipes

	cmd    *exec.Cmd
	status syscall.WaitStatus
	done   chan struct{} // closed when the child has ended and status is set
	stop   sync.Once
	reap   chan struct{} // closed by Stop
	reaped chan struct{} // closed when the child has been reaped
}

// A Spec says which program to start and how. The child inherits the working
// directory and the umask of the caller, and its environment if Env is nil. No
// shell is involved (pmcd(1), CONFIGURATION), unless the program is a script
// without "#!".
type Spec struct {
	Argv []string
	// Path is the program; "" is Argv[0]. It is searched for in PATH.
	Path string
	// Pipes gives the child pipes as standard input and output. Without them the
	// standard input is Stdin, and the standard output goes to Stderr.
	Pipes bool
	// Stdin is the standard input without Pipes; nil is empty.
	Stdin  *os.File
	Stderr *os.File
	// Files are descriptors 3 and so on.
	Files []*os.File
	// Env is the environment; nil is that of the caller.
	Env []string
	// Credential is the user that the child becomes before it executes the
	// program; nil is the user of the caller.
	Credential *syscall.Credential

	deathSignal syscall.Signal // sent to the child when the thread that started it ends; 0 is none
}

// shell executes a script without "#!", as execvp(3), which C pmcd uses, does.
const shell = "/bin/sh"

// Interpreter returns the words of the command that executes a script, which begins with first.
func Interpreter(first []byte) []string {
	line, _, _ := bytes.Cut(first, []byte("\n"))
	line, ok := bytes.CutPrefix(line, []byte("#!"))
	if words := strings.Fields(string(line)); ok && len(words) > 0 {
		return words
	}
	return []string{shell}
}

// Start runs a child. It has no context, because the child goes on when Start has
// returned: Stop ends it.
func Start(spec Spec) (*Process, error) {
	p := &Process{done: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	stdin, stdout := spec.Stdin, spec.Stderr
	if spec.Pipes {
		// MakePipes and not Cmd.StdoutPipe: Wait closes the read end of the
		// latter, although there may be output of the child in it.
		pipes, in, out, err := MakePipes()
		if err != nil {
			return nil, err
		}
		defer in.Close()
		defer out.Close()
		// An *os.File that is passed to the child becomes blocking, which C
		// programs need. The ends of this process stay non-blocking, so that
		// deadlines work and Close ends a Read. Neither works after a call of
		// Fd.
		stdin, stdout = in, out
		p.Pipes = pipes
	}
	p.cmd = spec.command(cmp.Or(spec.Path, spec.Argv[0]), spec.Argv, stdin, stdout)
	err := p.cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) && !isProgram(p.cmd.Path) {
		script := spec.command(shell, append([]string{shell, p.cmd.Path}, spec.Argv[1:]...), stdin, stdout)
		if script.Start() == nil {
			p.cmd, err = script, nil
		}
	}
	if err != nil {
		if p.Pipes != nil {
			p.Pipes.Close()
		}
		if e := (*fs.PathError)(nil); errors.As(err, &e) { // without "fork/exec PATH: ": callers name the program
			err = e.Err
		}
		return nil, err
	}
	go func() {
		defer close(p.reaped)
		p.status = waitExit(p.PID())
		close(p.done)
		<-p.reap
		p.cmd.Wait()
	}()
	return p, nil
}

// isProgram reports whether a file is a program, perhaps of another architecture. The shell of
// execvp(3) would take it for a script.
func isProgram(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(elf.ELFMAG))
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == elf.ELFMAG
}

// command returns the command of a child with these standard files.
func (spec *Spec) command(path string, argv []string, stdin, stdout *os.File) *exec.Cmd {
	cmd := exec.Command(path)
	cmd.Args = argv
	// With a process group of its own the child does not get signals of the
	// terminal, and Stop can end the processes that the child has started.
	// C pmcd differs: its agents stay in its process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential, Pdeathsig: spec.deathSignal}
	cmd.Env, cmd.ExtraFiles = spec.Env, spec.Files
	cmd.Stdout, cmd.Stderr = stdout, spec.Stderr
	if stdin != nil { // a nil *os.File is not a nil io.Reader
		cmd.Stdin = stdin
	}
	return cmd
}

// PID returns the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status returns how the child ended. It is valid once Done is closed.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// How long Stop waits for the end of the child before its next step. Tests have other times.
var (
	eofTime  = 500 * time.Millisecond
	termTime = time.Second
	killTime = 500 * time.Millisecond
)

// Stop ends the child. It closes the pipes, at which a PMDA exits. If the child
// does not end it sends SIGTERM and then SIGKILL to its process group; when ctx
// ends it sends SIGKILL at once. Processes that the child has left behind in its
// group are killed in any case.
//
// Stop takes no more than 2 seconds. A child that has not ended by then, because
// it is blocked in the kernel or this process may not kill it, is reaped when it
// ends.
func (p *Process) Stop(ctx context.Context) {
	p.stop.Do(func() {
		if p.Pipes != nil {
			p.Pipes.Close()
		}
		if !p.waitDone(ctx.Done(), eofTime) {
			p.signal(syscall.SIGTERM)
			p.waitDone(ctx.Done(), termTime)
		}
		p.signal(syscall.SIGKILL)
		ended := p.waitDone(nil, killTime)
		close(p.reap)
		if ended {
			<-p.reaped
		}
	})
}

// signal sends sig to the process group of the child, and to the child itself if
// it has left the group.
func (p *Process) signal(sig syscall.Signal) {
	syscall.Kill(-p.PID(), sig)
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		syscall.Kill(p.PID(), sig)
	}
}

// waitDone waits until the child has ended, stop is closed or d has passed. It
// reports whether the child has ended.
func (p *Process) waitDone(stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-stop:
	case <-t.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
