package agentset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// logThreshold is the number of failures in a row that are logged one by one. Further ones
// are logged once a minute.
const logThreshold = 2

// idleCheckInterval is how often an idle socket is checked.
const idleCheckInterval = time.Second

// drainTimeout is how long an agent that a reload stops may take to answer the requests
// that have begun before. Scripts that remove an agent wait for the reload.
const drainTimeout = time.Second

// hangLimit is how much longer than two starts may take (-q) the start of an agent is waited for, and
// how long the end of one that a reload stops. The file system of the agent's file may not answer.
const hangLimit = 10 * time.Second

// Why pmcd stops an agent that has not failed.
var (
	errUnconfigured = errors.New("unconfigured")
	errTerminated   = errors.New("terminated")
)

// Start starts the agents of list that are down. It starts pmdaroot first, because other
// agents connect to it once, at their start, and then all others at the same time. It
// returns when all starts are over or take too long, or ctx ends. From then on each agent is
// supervised until it is stopped.
func (s *Set) Start(ctx context.Context, list []*Agent) {
	var wg sync.WaitGroup
	for _, a := range list {
		if a.Domain == pmcdconf.RootDomain {
			a.start(ctx)
		}
	}
	for _, a := range list {
		if a.Domain != pmcdconf.RootDomain {
			wg.Go(func() { a.start(ctx) })
		}
	}
	wg.Wait()
}

// start starts a, if it is down, and waits until the start is over. If that takes too long, requests
// do not wait any more either. The start goes on: a second one might not end either.
func (a *Agent) start(ctx context.Context) {
	a.superviseOnce.Do(func() { a.set.tasks.Go(func() { a.superviseLoop() }) })
	limit := 2*a.set.cfg.HandshakeTimeout() + hangLimit // a restart may have begun
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan struct{})
	select {
	case a.startRequests <- done:
	case <-a.gone:
		return
	case <-limited.Done():
	}
	select {
	case <-done:
		return
	case <-a.gone:
		return
	case <-limited.Done():
	}
	if ctx.Err() == nil {
		a.overdue.Store(true)
		a.markStarted()
		a.set.cfg.Log.Error("the start of agent {agent:q} (dom {domain}) has not ended within {waited}; requests fail until it ends: the file system of its file may not answer",
			"agent", a.Name(), "domain", a.Domain, "waited", limit)
	}
}

// StartAfter makes the first start of a wait for the end of old, which is being stopped. It
// must be called before Start.
func (a *Agent) StartAfter(old *Agent) { a.startAfter = append(a.startAfter, old.gone) }

// Stop stops the agents of list at once, because pmcd ends, and waits for their
// processes.
func (s *Set) Stop(list []*Agent) {
	var wg sync.WaitGroup
	for _, a := range list {
		wg.Go(func() {
			a.stop(errTerminated)
			<-a.gone
		})
	}
	wg.Wait()
}

// DrainAndStop stops an agent that is no longer in pmcd.conf. It waits for the answers to
// requests that have begun before, at most for drainTimeout. It returns when the agent's
// process has ended, after hangLimit, or when ctx ends.
func (a *Agent) DrainAndStop(ctx context.Context) {
	a.life.stopped() // before Conn: a start that succeeds now is over, or fails
	if c := a.Conn(); c != nil {
		c.inflight.drain(ctx, drainTimeout)
	}
	a.stop(errUnconfigured)
	limit := time.NewTimer(hangLimit)
	defer limit.Stop()
	select {
	case <-a.gone:
	case <-limit.C: // its start hangs
	case <-ctx.Done():
	}
}

// stop stops a permanently. When it returns, new requests fail. a.gone is closed when the
// process has ended.
func (a *Agent) stop(why error) {
	a.cancel(why)
	a.life.stopped()            // before Conn, as in DrainAndStop
	a.superviseOnce.Do(func() { // it was never started
		a.markStarted()
		close(a.gone)
	})
	if c := a.Conn(); c != nil {
		c.Disconnect(why)
	}
}

// superviseLoop starts a at each request to start it, and again some time after
// each failure, until a is stopped. Only superviseLoop starts a.
func (a *Agent) superviseLoop() {
	cfg := &a.set.cfg
	defer close(a.gone)
	defer a.markStarted()
	defer a.life.stopped()
	for _, gone := range a.startAfter {
		<-gone
	}
	var restart <-chan time.Time
	var requested chan<- struct{} // closed when the start is over; nil if it is a restart
	for {
		if requested == nil {
			select {
			case <-a.ctx.Done():
			case requested = <-a.startRequests:
			case <-restart:
			}
		}
		if a.ctx.Err() != nil { // even if a start is due, too
			return
		}
		if requested != nil {
			a.life.resetFailures()
		}
		quiet := a.life.failures() > logThreshold
		if requested == nil && !quiet {
			cfg.Limiter.Log(slog.LevelInfo, "restart", "Auto-restarting agents.") // at most once a minute, as in C pmcd
		}
		c, err := a.connect()
		restart = nil
		switch {
		case err != nil && a.ctx.Err() == nil:
			why, last := splitStack(err)
			if e := (*transport.OpenError)(nil); errors.As(err, &e) {
				last = stderrTail(e.StderrTail)
			}
			restart = a.failed(a.life.startFailed, "cannot start {agent:q} agent (dom {domain})", why, last)
		case err == nil && (requested == nil || a.overdue.Swap(false)): // clients learn that it has started
			cfg.Observer.AgentRestarted(a, quiet)
		}
		a.markStarted()
		if requested != nil {
			close(requested)
			requested = nil
		}
		if c == nil {
			continue
		}
		up := time.Now()
		requested = a.awaitFailure(c)
		ended, last := a.reap(c, up)
		if a.ctx.Err() == nil {
			var attrs []any
			if p := c.unanswered; p.Type != 0 {
				attrs = append(attrs, "request", p.Type, "client", p.Client)
			}
			restart = a.failed(a.life.ended, "agent {agent:q} (dom {domain}) is down", ended, last, attrs...)
		}
	}
}

// connect starts a, or connects to it, within the time for the handshake (-q).
func (a *Agent) connect() (*Conn, error) {
	cfg := &a.set.cfg
	a.life.starting()
	ctx, cancel := transport.StartContext(a.ctx, cfg.HandshakeTimeout())
	defer cancel()
	spec := a.Spec()
	opened, err := cfg.Open(ctx, spec, wire.Options{
		PID:      int32(os.Getpid()),
		NotReady: spec.NotReady,
		Depth:    8,
		MaxReply: cfg.MaxReply,
		Counts:   cfg.Counts,
		OnPDU:    a.tracePDU,
		OnState:  a.onTransportState,
	})
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: opened, Agent: a, announced: make(chan struct{})}
	if a.ctx.Err() == nil && c.State() == transport.Ready {
		cfg.Observer.AgentReady(a, false)
	}
	if !a.life.connected(c) { // stopped meanwhile: Open may not heed ctx
		c.shutdown()
		if c.Process != nil {
			c.Process.Stop(cfg.Kill)
		}
		<-a.ctx.Done() // soon: DrainAndStop calls stop
		return nil, context.Cause(a.ctx)
	}
	cfg.Observer.AgentChanged(a)
	cfg.Observer.AgentConnected(c)
	close(c.announced)
	cfg.Trace.Event(diag.TraceConns, "Add PMDA: domain=%d, %s", a.Domain, c.descriptors())
	pid := -1
	if c.Process != nil {
		pid = c.Process.PID()
	}
	cfg.Debug.Log(diag.DebugAgents, "pmcd: started PMDA {agent} ({domain}), pid={agent_pid}", "agent", a.Name(), "domain", a.Domain, "agent_pid", pid)
	return c, nil
}

// awaitFailure blocks until c is disconnected, and disconnects it if the agent is late for
// too long. If a start was requested in the meantime, it returns that request.
func (a *Agent) awaitFailure(c *Conn) (requested chan<- struct{}) {
	cfg := &a.set.cfg
	var checkIdle func()
	var ticks <-chan time.Time
	if checker, ok := c.Transport.(transport.IdleChecker); ok && a.Spec().Kind == pmcdconf.Socket {
		t := time.NewTicker(idleCheckInterval)
		defer t.Stop()
		checkIdle, ticks = checker.CheckIdle, t.C
	}
	stableTimer := time.NewTimer(stableAfter)
	defer stableTimer.Stop()
	var since time.Time // when the agent became late; zero if it is not
	grace := time.NewTimer(time.Hour)
	defer grace.Stop()
	grace.Stop()
	for {
		select {
		case <-c.Done():
			c.Disconnect(nil)
			return nil
		case <-a.ctx.Done():
			c.Disconnect(context.Cause(a.ctx))
			return nil
		case requested := <-a.startRequests:
			if closed(c.Done()) { // a reload has noticed it first
				c.Disconnect(nil)
				return requested
			}
			close(requested) // it is connected
		case <-stableTimer.C:
			if n := a.life.resetFailures(); n > logThreshold {
				cfg.Log.Info("agent {agent:q} (dom {domain}) recovered after {attempt} failures", "agent", a.Name(), "domain", a.Domain, "attempt", n)
			}
		case <-ticks:
			checkIdle()
		case <-a.stateChanged:
			grace.Stop()
			if since = a.life.lateSince(); !since.IsZero() {
				grace.Reset(time.Until(since.Add(a.set.lateGrace())))
			}
		case <-grace.C:
			if a.life.lateSince() != since { // the state has changed; stateChanged has a value
				continue
			}
			if c.inProcess() {
				cfg.Log.Warn("agent {agent:q} (dom {domain}) runs in pmcd's process and cannot be killed; requests fail until it replies",
					"agent", a.Name(), "domain", a.Domain)
				continue
			}
			why := fmt.Errorf("late for %v, longer than --late-grace; pmcd disconnects it", round(time.Since(since)))
			if a.set.lateGrace() == 0 {
				why = errors.New("no answer within -t, and --late-grace is 0; pmcd disconnects it")
			}
			c.Disconnect(why)
			return nil
		}
	}
}

// tracePDU adds a PDU of a to the trace and the log. The descriptor is not known before a
// is connected.
func (a *Agent) tracePDU(sent bool, b []byte) {
	cfg := &a.set.cfg
	if cfg.Trace.On(diag.TracePDUs) {
		fd := -1
		if c := a.Conn(); c != nil && sent {
			fd = c.Out
		} else if c != nil {
			fd = c.In
		}
		cfg.Trace.PDU(sent, fd, b)
	}
	if cfg.Debug.Shows(diag.DebugPDU | diag.DebugOps) {
		cfg.Debug.PDU(sent, b, "agent {agent:q}", "agent", a.Name(), "domain", a.Domain)
	}
}
