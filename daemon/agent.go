package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Reasons in pmcd.agent.status of an agent that is not connected (pmcd(1)).
const (
	statusReaped     = 2 // found dead
	statusNotStarted = 4
	statusProtocol   = 8
)

// An OpenFunc starts or finds the agent of one line of pmcd.conf and connects
// to it, until ctx ends. opt is for the exchange with one that speaks the
// protocol.
type OpenFunc func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*Link, error)

// A Link is a connection to an agent that has just been opened.
type Link struct {
	Conduit agents.Conduit
	Process Process // of the agent; nil if pmcd did not start it
	In, Out int     // descriptors for replies and requests, for messages; -1 if there are none

	// Interface is what a DSO has (PMDA_INTERFACE_7 is 7); 0 for other agents.
	Interface int

	// Changed, if it is there, is asked at each reload. It says once of each
	// change on disk that the agent goes on with what was there before, and how
	// that ends.
	Changed func() error

	drop sync.Once // has the connection been given up?
}

// A Process is an agent that pmcd started.
type Process interface {
	PID() int
	Done() <-chan struct{}      // closed when it is gone
	Status() syscall.WaitStatus // how it ended, once Done is closed
	Stop(ctx context.Context)   // waits for its end, and forces that when ctx ends
}

// An agent is one line of pmcd.conf and what has become of it. It outlives
// connections, and reloads that do not concern it.
type agent struct {
	domain  int
	spec    atomic.Pointer[pmcdconf.Agent]
	settled chan struct{}        // closed when the first start is over, well or not
	link    atomic.Pointer[Link] // nil while the agent is down
	status  atomic.Int32         // why it is down
	fenced  atomic.Bool
	told    atomic.Int32 // the wire.State that was told last
}

func newAgent(spec *pmcdconf.Agent) *agent {
	a := &agent{domain: spec.Domain, settled: make(chan struct{})}
	a.spec.Store(spec)
	a.status.Store(statusNotStarted)
	return a
}

func (a *agent) name() string { return a.spec.Load().Name }

// up returns the connection to a, waiting for its first start to end.
func (a *agent) up() *Link {
	if l := a.link.Load(); l != nil {
		return l
	}
	<-a.settled
	return a.link.Load()
}

// available is up for a request that a fence stops.
func (a *agent) available() (*Link, error) {
	l := a.up()
	switch {
	case l == nil:
		return nil, pdu.ErrnoNoAgent
	case a.fenced.Load():
		return nil, pdu.ErrnoPMDAFenced
	}
	return l, nil
}

// state reports what the agent can do, if it is connected.
func (l *Link) state() wire.State {
	if c, ok := l.Conduit.(interface{ State() wire.State }); ok {
		return c.State()
	}
	return wire.Ready
}

// visible reports pmcd.agent.status.
func (a *agent) visible() int32 {
	l := a.link.Load()
	switch {
	case l == nil:
		return a.status.Load()
	case l.state() == wire.NotReady:
		return 1
	}
	return 0
}

// startAgents starts all of list at once, except that pmdaroot comes first:
// others connect to it once, when they start. It returns when all have
// settled.
func (d *Daemon) startAgents(ctx context.Context, list []*agent) {
	const rootDomain = 1
	var wg sync.WaitGroup
	for _, a := range list {
		if a.domain == rootDomain {
			d.startAgent(ctx, a)
		}
	}
	for _, a := range list {
		if a.domain != rootDomain {
			wg.Go(func() { d.startAgent(ctx, a) })
		}
	}
	wg.Wait()
}

// startAgent connects a, within the time for the handshake (-q).
func (d *Daemon) startAgent(ctx context.Context, a *agent) {
	spec := a.spec.Load()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.credsTimeout.Load()))
	defer cancel()
	l, err := d.open(ctx, a, spec)
	if err != nil {
		a.status.Store(statusNotStarted)
		d.log.Error(fmt.Sprintf("cannot start %q agent (dom %d): %v", spec.Name, a.domain, err))
		a.settle()
		return
	}
	a.link.Store(l)
	d.seqnum.Add(1)
	for _, s := range d.sessions() { // and those to come see the link
		s.introduce(l)
	}
	d.trace.event(traceConns, "Add PMDA: domain=%d, %s", a.domain, l.fds())
	d.tasks.Go(func() {
		<-l.Conduit.Done()
		d.drop(a, l, "")
	})
	a.settle()
}

func (a *agent) settle() {
	select {
	case <-a.settled:
	default:
		close(a.settled) // starts of one agent do not overlap
	}
}

func (l *Link) fds() string {
	if l.In < 0 {
		return "DSO"
	}
	return fmt.Sprintf("infd=%d, outfd=%d", l.In, l.Out)
}

// drop gives up the connection l to a. why says so if it is not the end of
// the Conduit. Whoever notices calls it; it returns when the drop is visible
// to clients.
func (d *Daemon) drop(a *agent, l *Link, why string) {
	l.drop.Do(func() {
		err := l.Conduit.Err()
		l.Conduit.Close()
		spec := a.spec.Load()
		if spec.Kind == pmcdconf.Socket && spec.Family == "unix" && l.Process != nil {
			os.Remove(spec.Address) // the next one could not bind to it
		}
		status := int32(statusProtocol)
		ended := ""
		if p := l.Process; p != nil {
			d.tasks.Go(func() { d.reap(p) })
			// A moment for it to end by itself, so that one can say how.
			wait := time.NewTimer(20 * time.Millisecond)
			defer wait.Stop()
			select {
			case <-p.Done():
				ws := p.Status()
				ended = describe(ws)
				if ws.Exited() {
					status |= int32(ws.ExitStatus()) << 8
				} else if ws.Signaled() {
					status |= int32(ws.Signal()) << 16
				}
				// The end of the stream may have come first.
				if end := Ended(ws); ws != 0 && err != nil && err != agents.ErrClosed && !errors.Is(err, end) {
					err = fmt.Errorf("%w (%w)", err, end)
				}
			case <-wait.C:
			}
		}
		a.status.Store(status)
		if why == "" {
			why = fmt.Sprintf("protocol failure for fd=%d", l.In)
		}
		d.log.Info(fmt.Sprintf("CleanupAgent ...\nCleanup %q agent (dom %d): %s%s", spec.Name, a.domain, why, ended))
		if err != nil && err != agents.ErrClosed {
			d.log.Warn(fmt.Sprintf("agent %q (dom %d) is down: %v", spec.Name, a.domain, err))
		}
		d.trace.event(traceConns, "Drop PMDA: domain=%d, %s", a.domain, l.fds())
		d.trace.dumpOnDrop()
		// In this order: who finds no agent has been told of its end.
		d.notice(pdu.StateDropAgent)
		a.fenced.Store(false)
		a.link.CompareAndSwap(l, nil)
	})
}

// killAfter is how long an agent may take to end once its pipes are closed.
const killAfter = 5 * time.Second

// reap waits for the end of an agent that was dropped, and forces it.
func (d *Daemon) reap(p Process) {
	ctx, cancel := context.WithTimeout(d.stopping, killAfter)
	defer cancel()
	p.Stop(ctx)
}

// stopAgents closes all connections at once and waits for the processes.
func (d *Daemon) stopAgents() {
	var wg sync.WaitGroup
	for _, a := range d.routes.Load().list {
		if l := a.link.Load(); l != nil {
			wg.Go(func() { d.drop(a, l, "terminated") })
		}
	}
	wg.Wait()
}
