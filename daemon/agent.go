package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An OpenFunc starts or finds the agent of one line of pmcd.conf and connects
// to it, until ctx ends. opt is for the exchange with one that speaks the
// protocol.
type OpenFunc func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error)

// An agentConn is the connection of an agent and what the daemon knows of it.
type agentConn struct {
	*transport.Conn

	inflight inflight

	disconnectOnce sync.Once         // sets the following
	cause          error             // of the end of the connection
	unanswered     transport.Pending // the oldest request without a reply then; its Type is 0 if there was none
}

// An agent is one line of pmcd.conf and what has become of it. It outlives
// connections, and reloads that do not concern it.
type agent struct {
	lifecycle
	domain  int
	spec    atomic.Pointer[pmcdconf.Agent]
	started chan struct{} // closed when the first start has succeeded or failed
	latency latencyStats

	// For superviseLoop.
	superviseOnce sync.Once          // starts its goroutine
	startRequests chan chan struct{} // what is sent is closed when the start is over
	stateChanged  chan struct{}      // holds one value when the state may have changed
	ctx           context.Context    // ends when the agent is to stop; its cause is the reason
	cancel        context.CancelCauseFunc
	startAfter    []<-chan struct{} // the first start waits until they are closed
	gone          chan struct{}     // closed when superviseLoop has returned
}

func newAgent(spec *pmcdconf.Agent) *agent {
	a := &agent{
		domain:        spec.Domain,
		started:       make(chan struct{}),
		startRequests: make(chan chan struct{}),
		stateChanged:  make(chan struct{}, 1),
		gone:          make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.spec.Store(spec)
	return a
}

func (a *agent) name() string { return a.spec.Load().Name }

// awaitConn returns the connection to a; nil if there is none. It waits until the
// first start is over.
func (a *agent) awaitConn() *agentConn {
	if l := a.conn.Load(); l != nil {
		return l
	}
	<-a.started
	return a.conn.Load()
}

// connect starts a, or finds it, within the time for the handshake (-q).
func (d *Daemon) connect(a *agent) (*agentConn, error) {
	a.starting()
	ctx, cancel := transport.StartContext(a.ctx, time.Duration(d.credsTimeout.Load()))
	defer cancel()
	c, err := d.open(ctx, a, a.spec.Load())
	if err != nil {
		return nil, err
	}
	l := &agentConn{Conn: c}
	if l.State() == wire.Ready {
		d.namesBack(a.domain) // a client that finds the agent has been told
	}
	a.connected(l)
	d.HealthChanged()
	d.seqnum.Add(1)
	for _, s := range d.sessions() { // and those to come see the link
		s.introduce(l)
	}
	d.trace.Event(diag.TraceConns, "Add PMDA: domain=%d, %s", a.domain, l.fds())
	pid := -1
	if l.Process != nil {
		pid = l.Process.PID()
	}
	d.debug.Printf(diag.DebugAgents, "pmcd: started PMDA %s (%d), pid=%d", a.name(), a.domain, pid)
	return l, nil
}

// markStarted wakes the requests that wait for the first start. Only superviseLoop
// calls it, or stopAgent if that does not run.
func (a *agent) markStarted() {
	if !closed(a.started) {
		close(a.started)
	}
}

func (l *agentConn) fds() string {
	if l.In < 0 {
		return "DSO"
	}
	return fmt.Sprintf("infd=%d, outfd=%d", l.In, l.Out)
}

// disconnect closes the connection l to a because of why; nil is the error of the
// Transport. Any goroutine may call it. It returns when clients see the result.
// superviseLoop does the rest.
func (d *Daemon) disconnect(a *agent, l *agentConn, why error) {
	l.disconnectOnce.Do(func() {
		if why == nil {
			why = l.Err()
		}
		l.cause = why
		l.Close()
		l.unanswered, _ = l.Pending()
		spec := a.spec.Load()
		if spec.Kind == pmcdconf.Socket && spec.Family == access.Unix && l.Process != nil {
			os.Remove(spec.Address) // the next one could not bind to it
		}
		status := int32(statusProtocol)
		ended := ""
		if p := l.Process; p != nil {
			// If the process ends by itself within this time, the log can say how.
			wait := time.NewTimer(20 * time.Millisecond)
			defer wait.Stop()
			select {
			case <-p.Done():
				ws := p.Status()
				ended = exitText(ws)
				if ws.Exited() {
					status |= int32(ws.ExitStatus()) << 8
				} else if ws.Signaled() {
					status |= int32(ws.Signal()) << 16
				}
			case <-wait.C:
			}
		}
		text := fmt.Sprintf("protocol failure for fd=%d", l.In)
		if why == errUnconfigured || why == errTerminated {
			text = why.Error()
		}
		if a.failures() < logThreshold {
			d.log.Info(fmt.Sprintf("CleanupAgent ...\nCleanup %q agent (dom %d): %s%s", spec.Name, a.domain, text, ended))
		}
		d.trace.Event(diag.TraceConns, "Drop PMDA: domain=%d, %s", a.domain, l.fds())
		d.trace.DumpOnDrop()
		// In this order: a client that gets PM_ERR_NOAGENT has been told of the end.
		d.notice(pdu.StateDropAgent)
		a.disconnected(l, status)
		d.HealthChanged()
	})
}

// open connects to the agent of spec.
func (d *Daemon) open(ctx context.Context, a *agent, spec *pmcdconf.Agent) (*transport.Conn, error) {
	if spec.Kind == pmcdconf.DSO && spec.Entry == pmcdconf.PMCDEntry {
		agent := pmcd.New(spec.Domain, spec.Name, host{d}, pmcd.Config{
			RunDir: d.cfg.RunDir, TmpDir: d.cfg.TmpDir, Build: d.cfg.Build,
			LocalTime: "/etc/localtime", ZoneInfoDir: "/usr/share/zoneinfo",
		})
		// The interface is that of the agent in its place in C pmcd, for the log.
		return &transport.Conn{Transport: transport.Inline(agent), In: -1, Out: -1, Interface: 6}, nil
	}
	return d.cfg.Open(ctx, spec, wire.Options{
		PID:      int32(os.Getpid()),
		NotReady: spec.NotReady,
		Depth:    8,
		Counts:   &d.counts,
		OnPDU:    d.pduHook(a),
		OnState:  func(s wire.State) { d.transportState(a, s) },
	})
}
