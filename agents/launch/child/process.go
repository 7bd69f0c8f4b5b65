// Package child starts agents as child processes and watches over them.
package child

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A Process is a child.
//
// One goroutine, started by Start, waits for the child. The child is reaped by
// Stop, which must be called, and not before: until then its number is nobody
// else's, and what it has started can be found by it. There is no wait for "any
// child": that would steal the exit status of other parts of the program.
type Process struct {
	// Pipes are what the child reads and writes; nil if it was not given any.
	Pipes *Pipes

	cmd    *exec.Cmd
	status syscall.WaitStatus
	done   chan struct{} // closed when the child has ended, and status is set
	stop   sync.Once
	reap   chan struct{} // closed by Stop
	reaped chan struct{}
}

// A Spec says what to start and how. The environment, the directory and the
// umask are the caller's; nothing goes through a shell (pmcd(1),
// CONFIGURATION).
type Spec struct {
	Argv []string
	// Path is the program; "" is argv[0]. It is searched for in PATH.
	Path string
	// Pipes gives the child pipes as standard input and output. Without, it
	// reads nothing, and its output goes where its errors go.
	Pipes  bool
	Stderr *os.File
	// Credential is the user that the child becomes before it executes anything;
	// nil is the caller's.
	Credential *syscall.Credential

	deathSignal syscall.Signal // that the child gets when the thread that starts it ends; 0 is none
}

// Start runs a child.
func Start(spec Spec) (*Process, error) {
	p := &Process{cmd: exec.Command(cmp.Or(spec.Path, spec.Argv[0])),
		done: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	p.cmd.Args = spec.Argv
	// A group of its own: a signal from the terminal is pmcd's alone, and what
	// the child starts can be ended with it. C pmcd differs: its agents stay
	// in its group.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential, Pdeathsig: spec.deathSignal}
	p.cmd.Stdout, p.cmd.Stderr = spec.Stderr, spec.Stderr
	if spec.Pipes {
		// os.Pipe and not Cmd.StdoutPipe: the latter's reading end is closed
		// by Wait, while the end of the child's output is still being read.
		inR, inW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer inR.Close()
		outR, outW, err := os.Pipe()
		if err != nil {
			inW.Close()
			return nil, err
		}
		defer outW.Close()
		growPipe(outR)
		// Handing an *os.File to the child makes that end blocking, which a C
		// program wants. Ours stay non-blocking, so deadlines work on them and
		// Close ends a Read in progress; neither holds after a call of Fd.
		p.cmd.Stdin, p.cmd.Stdout = inR, outW
		p.Pipes = NewPipes(outR, inW)
	}
	if err := p.cmd.Start(); err != nil {
		if p.Pipes != nil {
			p.Pipes.Close()
		}
		if e := (*fs.PathError)(nil); errors.As(err, &e) { // "fork/exec PATH: ": callers say what they start
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

// PID reports the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status reports how the child ended. It is valid once Done is closed.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// How long a child is waited for before the next step of Stop.
const (
	eofTime  = 500 * time.Millisecond
	termTime = time.Second
	killTime = 500 * time.Millisecond
)

// Stop ends the child: it closes the pipes, which a PMDA takes as the end of
// its work; then comes SIGTERM and, as soon as ctx ends at the latest, SIGKILL,
// for all that is in its process group. What the child has left behind in that
// is killed in any case. Stop takes no more than 2 seconds; a child that is
// still there then, because the kernel holds it or it is not ours to kill, is
// reaped whenever it ends.
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

// signal sends sig to the process group of the child, and to the child, which may
// have left it.
func (p *Process) signal(sig syscall.Signal) {
	syscall.Kill(-p.PID(), sig)
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		syscall.Kill(p.PID(), sig)
	}
}

// waitDone waits for the end of the child until stop is closed or d has passed.
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
