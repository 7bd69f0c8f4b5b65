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

	holds holds
	drop  sync.Once         // has the connection been given up? Sets the following
	cause error             // why
	owed  transport.Pending // what the agent has not answered; its Type is 0 for nothing
}

// An agent is one line of pmcd.conf and what has become of it. It outlives
// connections, and reloads that do not concern it.
type agent struct {
	lifecycle
	domain  int
	spec    atomic.Pointer[pmcdconf.Agent]
	settled chan struct{} // closed when the first start is over, well or not
	load    load

	// For keep, which one goroutine runs.
	begin   sync.Once          // of keep, if ever
	asks    chan chan struct{} // to start it now; closed when that is over
	changed chan struct{}      // full when the state may have changed
	ctx     context.Context    // ends when it is retired, which says why
	retired context.CancelCauseFunc
	after   []<-chan struct{} // closed when what is in the way of the first start is gone
	gone    chan struct{}     // closed when keep has returned
}

func newAgent(spec *pmcdconf.Agent) *agent {
	a := &agent{
		domain:  spec.Domain,
		settled: make(chan struct{}),
		asks:    make(chan chan struct{}),
		changed: make(chan struct{}, 1),
		gone:    make(chan struct{}),
	}
	a.ctx, a.retired = context.WithCancelCause(context.Background())
	a.spec.Store(spec)
	return a
}

func (a *agent) name() string { return a.spec.Load().Name }

// up returns the connection to a, waiting for its first start to end.
func (a *agent) up() *agentConn {
	if l := a.conn.Load(); l != nil {
		return l
	}
	<-a.settled
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

// settle lets those go on who wait for the first start. Only keep calls it, or
// who has seen to it that there is none.
func (a *agent) settle() {
	if !closed(a.settled) {
		close(a.settled)
	}
}

func (l *agentConn) fds() string {
	if l.In < 0 {
		return "DSO"
	}
	return fmt.Sprintf("infd=%d, outfd=%d", l.In, l.Out)
}

// drop gives up the connection l to a because of why; nil is the end of the
// Transport. Each goroutine that notices may call it. It returns when the drop is
// visible to clients. The rest is done by keep.
func (d *Daemon) drop(a *agent, l *agentConn, why error) {
	l.drop.Do(func() {
		if why == nil {
			why = l.Err()
		}
		l.cause = why
		l.Close()
		l.owed, _ = l.Pending()
		spec := a.spec.Load()
		if spec.Kind == pmcdconf.Socket && spec.Family == access.Unix && l.Process != nil {
			os.Remove(spec.Address) // the next one could not bind to it
		}
		status := int32(statusProtocol)
		ended := ""
		if p := l.Process; p != nil {
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
			case <-wait.C:
			}
		}
		text := fmt.Sprintf("protocol failure for fd=%d", l.In)
		if why == errUnconfigured || why == errTerminated {
			text = why.Error()
		}
		if a.failures() < loud {
			d.log.Info(fmt.Sprintf("CleanupAgent ...\nCleanup %q agent (dom %d): %s%s", spec.Name, a.domain, text, ended))
		}
		d.trace.Event(diag.TraceConns, "Drop PMDA: domain=%d, %s", a.domain, l.fds())
		d.trace.DumpOnDrop()
		// In this order: who finds no agent has been told of its end.
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
		OnState:  func(s wire.State) { d.agentState(a, s) },
	})
}
