// Package shared runs several agents that are built into the program in one process. It is
// a child of the root helper, with root's rights:
//
//	daemon ──── root helper (package roothelper) ──── shared process
//	                    Host                               Serve
//
// The shared process is to the root helper what the root helper is to the daemon: it gets
// the same messages, reads pmcd.conf itself and checks it by the same rules. Each agent has
// pipes of its own to the daemon, which knows no difference to an agent with a process of
// its own.
//
// A panic ends one agent. What ends the process ends all of its agents: a fatal error of
// the Go runtime, SIGKILL, or an agent that does not end when it should, because a call of
// it hangs. A process that does not answer the root helper is killed. The daemon starts the
// agents again, as it does after any failure, but then each gets a process of its own, until
// pmcd is restarted. So an agent that repeatedly ends its process does so to others once.
// SIGTERM ends the process in order, and counts for nothing: the agents share a process
// again.
//
// The process starts with its first agent and ends with its last.
package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Name is argv[0] of the shared process. PCP's scripts take a process for pmcd if its name
// is pmcd or ends in /pmcd.
const Name = "pmcd-agents"

// ErrFailed means that the shared process has failed, so that an agent should be started in
// a process of its own.
var ErrFailed = errors.New("the shared process (" + Name + ") has failed")

// A Host starts agents in a shared process. Its methods may be called from any goroutine.
type Host struct {
	start     func(socket *os.File) (roothelper.AgentProcess, error)
	startTime time.Duration // that a process may take to start an agent
	stopTime  time.Duration // and to kill one
	log       func(line string)

	mu      sync.Mutex // guards the following, and what they point to
	current *process   // nil if no process runs, or the one that runs is about to end
	failed  bool       // a process has failed
}

// A process is a shared process.
type process struct {
	child  roothelper.AgentProcess
	client *roothelper.Client
	agents int // that run or are being started; guarded by Host.mu
}

// NewHost returns a Host. start starts the shared process, which must call [Serve] with the
// socket. log logs a line.
func NewHost(start func(socket *os.File) (roothelper.AgentProcess, error), log func(line string)) *Host {
	return &Host{start: start, startTime: 10 * time.Second, stopTime: stopTime, log: log}
}

// stopTime is longer than the process needs. After it the process is killed, and the daemon
// still waits for that.
const stopTime = 2 * lastGrace

// Start starts an agent in the shared process, as [roothelper.Client.Start] does. The caller
// closes the pipes. The error is ErrFailed if the process has failed, now or before.
func (h *Host) Start(ctx context.Context, a *pmcdconf.Agent, stderr *os.File) (*Agent, *child.Pipes, error) {
	p, err := h.enter()
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, h.startTime)
	defer cancel()
	remote, err := p.client.Start(limited, a, stderr)
	if err != nil {
		if errors.Is(err, roothelper.ErrLost) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			h.notStarted(limited, p)
			err = ErrFailed
		}
		h.leave(p)
		return nil, nil, err
	}
	agent := &Agent{host: h, remote: remote, process: p, done: make(chan struct{})}
	go func() { // ends with the agent
		defer close(agent.done)
		<-remote.Done()
		agent.status = remote.Status()
		if !remote.Known() { // it is that of the process
			<-p.child.Done()
			agent.status = p.child.Status()
			h.ended(p)
		}
		h.leave(p)
	}()
	return agent, remote.Pipes, nil
}

// enter returns the process for one more agent, and starts it if none runs.
func (h *Host) enter() (*process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed {
		return nil, ErrFailed
	}
	if h.current == nil {
		p := new(process)
		var err error
		p.client, err = roothelper.Connect(func(socket *os.File) (err error) {
			p.child, err = h.start(socket)
			return err
		}, h.stopTime)
		if err != nil {
			return nil, fmt.Errorf("cannot start %s: %w", Name, err)
		}
		h.current = p
		go func() { // ends with the process
			<-p.child.Done()
			h.ended(p)
		}()
	}
	h.current.agents++
	return h.current, nil
}

// notStarted is called if p has not started an agent, because its connection has ended or ctx
// has, and kills p if it does not end until then.
func (h *Host) notStarted(ctx context.Context, p *process) {
	select {
	case <-p.child.Done():
		h.ended(p)
	case <-ctx.Done():
		h.kill(p)
	}
}

// leave is called for each agent that has ended or was not started. The process ends with
// its last agent.
func (h *Host) leave(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.agents--; p.agents == 0 && h.current == p {
		h.current = nil
		go end(p)
	}
}

// end ends a process that has no agents.
func end(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	p.client.Close(ctx)
	p.child.Stop(ctx)
}

// endTime is how long a process without agents may take to end.
const endTime = 5 * time.Second

// ended records that a process has ended although it had agents. Its agents call it, too: it
// must be known before they are started again.
func (h *Host) ended(p *process) {
	status := p.child.Status()
	terminated := status.Signaled() && status.Signal() == syscall.SIGTERM
	h.remove(p, !terminated, "has ended"+roothelper.HowEnded(status))
}

// kill ends a process that does not answer. It may be blocked in the kernel, and then does
// not even end by SIGKILL, so its end is not waited for.
func (h *Host) kill(p *process) {
	h.remove(p, true, "does not answer and is killed")
	now, cancel := context.WithCancel(context.Background())
	cancel()
	p.child.Stop(now)
}

// remove ends a process that had agents, unless that was done before, so that no more are
// started in it. If it has failed, remove logs how.
func (h *Host) remove(p *process, failed bool, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != p {
		return
	}
	h.current = nil
	go end(p)
	if !failed {
		return
	}
	h.failed = true
	h.log(fmt.Sprintf("%s(%d) %s; its agents get a process each when they are started again, until pmcd is restarted",
		Name, p.child.PID(), how))
}

// An Agent is an agent in a shared process.
type Agent struct {
	host    *Host
	remote  *roothelper.Process
	process *process
	status  syscall.WaitStatus
	done    chan struct{} // closed when it has ended and status is set
}

var _ roothelper.AgentProcess = (*Agent)(nil)

// PID implements roothelper.AgentProcess: it returns the process id of the shared process.
func (a *Agent) PID() int { return a.remote.PID() }

// Done implements roothelper.AgentProcess.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Status implements roothelper.AgentProcess. If the process has ended, it returns how.
func (a *Agent) Status() syscall.WaitStatus { return a.status }

// Stop implements roothelper.AgentProcess. If the agent does not end, it kills the process.
// When Stop returns, Done is closed, unless the process is blocked in the kernel.
func (a *Agent) Stop(ctx context.Context) {
	a.remote.Stop(ctx)
	select {
	case <-a.remote.Stopped():
	case <-a.process.client.Lost():
	default: // the process does not answer
		a.host.kill(a.process)
	}
	t := time.NewTimer(reapTime)
	defer t.Stop()
	select {
	case <-a.done:
	case <-t.C:
	}
}

// reapTime is how long a process may take to end that was killed, or has closed its connection.
const reapTime = 2 * time.Second
