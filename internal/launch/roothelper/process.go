package roothelper

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
)

// A Process is an agent that the root helper has started.
type Process struct {
	// Pipes are the standard input and output of the process; nil for a socket
	// agent.
	Pipes *child.Pipes

	client  *Client
	id      uint32
	pid     int
	exited  bool // guarded by client.mu
	status  syscall.WaitStatus
	known   bool          // status is known
	done    chan struct{} // closed when it has ended and status is set
	stopped chan struct{} // closed when the root helper has stopped and reaped it
}

// PID returns its process id.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status returns how it ended. It is valid once Done is closed; 0 if the status is
// not known.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// Known reports whether the root helper has sent the status. It is valid once Done is closed.
func (p *Process) Known() bool { return p.known }

// Stopped returns a channel that is closed when the root helper has stopped the process. It
// may stay open if the root helper hangs.
func (p *Process) Stopped() <-chan struct{} { return p.stopped }

// helperStopTimeout is how long the root helper may take to kill a process.
const helperStopTimeout = stopGrace + time.Second

// Stop ends the process as [child.Process.Stop] does.
func (p *Process) Stop(ctx context.Context) {
	if p.Pipes != nil {
		p.Pipes.Close()
	}
	// If the root helper hangs, these wait until it reads or ends. Stop does not.
	send := func(now bool) { p.client.send(context.Background(), message{kind: msgStop, id: p.id, now: now}) }
	go send(false)
	select {
	case <-p.stopped:
	case <-p.client.lost:
	case <-ctx.Done():
		go send(true)
		t := time.NewTimer(p.client.stopTimeout)
		defer t.Stop()
		select {
		case <-p.stopped:
		case <-p.client.lost:
		case <-t.C:
		}
	}
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	delete(p.client.processes, p.id)
	p.setExitedLocked(0, false)
}

// setExitedLocked records that the process has ended, and how if that is known. The caller
// holds client.mu.
func (p *Process) setExitedLocked(status syscall.WaitStatus, known bool) {
	if !p.exited {
		p.exited, p.status, p.known = true, status, known
		close(p.done)
	}
}

// setPipes makes Pipes from the descriptors that came with the process. want is
// how many it needs: two or none.
func (p *Process) setPipes(files []*os.File, want int) error {
	if len(files) != want {
		return fmt.Errorf("the root helper sent %d descriptors with the process, want %d", len(files), want)
	}
	if want == 0 {
		return nil
	}
	for _, f := range files { // a descriptor without deadlines could block pmcd
		if err := f.SetDeadline(time.Time{}); err != nil {
			return fmt.Errorf("pmcd cannot set deadlines for its pipes: %w", err)
		}
	}
	p.Pipes = child.NewPipes(files[0], files[1])
	return nil
}
