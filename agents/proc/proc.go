// Package proc starts agents as child processes and watches over them.
package proc

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"syscall"
)

// A Process is a running child.
//
// One goroutine, started by Start, waits for the child; it ends when the child
// has been reaped. Nothing else calls Wait, and there is no wait for "any
// child": that would steal the exit status of other parts of the program.
type Process struct {
	// Pipes are what the child reads and writes; nil if it was not given any.
	Pipes *Pipes

	cmd  *exec.Cmd
	done chan struct{} // closed when the child is reaped
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
}

// Start runs a child.
func Start(spec Spec) (*Process, error) {
	p := &Process{cmd: exec.Command(cmp.Or(spec.Path, spec.Argv[0])), done: make(chan struct{})}
	p.cmd.Args = spec.Argv
	// A group of its own: a signal from the terminal is pmcd's alone, and what
	// the child starts can be ended with it. C pmcd differs: its agents stay
	// in its group.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = spec.Stderr, spec.Stderr
	if spec.Pipes {
		// os.Pipe and not Cmd.StdoutPipe: the latter's reading end is closed
		// by Wait, under the feet of whoever is reading the child's last words.
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
		// Handing an *os.File to the child makes that end blocking, which a C
		// program wants. Ours stay non-blocking, so deadlines work on them and
		// Close ends a Read in progress; neither holds after a call of Fd.
		p.cmd.Stdin, p.cmd.Stdout = inR, outW
		p.Pipes = &Pipes{r: outR, w: inW}
	}
	if err := p.cmd.Start(); err != nil {
		if p.Pipes != nil {
			p.Pipes.Close()
		}
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait()
	}()
	return p, nil
}

// PID reports the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status reports how the child ended. It is valid once Done is closed.
func (p *Process) Status() syscall.WaitStatus {
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Stop ends the child: it closes the pipes, which a PMDA takes as the end of
// its work, and kills the child and what it has started when ctx ends first.
func (p *Process) Stop(ctx context.Context) {
	if p.Pipes != nil {
		p.Pipes.Close()
	}
	select {
	case <-p.done:
		return
	default:
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.done
	}
}
