package agentset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pmcdconf"
)

// logThreshold is how many failures in a row have a line in the log each. Further
// ones have one line a minute.
const logThreshold = 2

// idleCheckInterval is how often an idle socket is checked.
const idleCheckInterval = time.Second

// drainTimeout is how long an agent that is to stop may take to answer the
// requests that had begun before. Scripts that remove an agent wait for the
// reload.
const drainTimeout = time.Second

// Why pmcd stops an agent that has not failed.
var (
	errUnconfigured = errors.New("unconfigured")
	errTerminated   = errors.New("terminated")
)

// Start starts those of list that are down, all at once, except that pmdaroot
// comes first: others connect to it once, when they start. It returns when all
// starts are over, or ctx ends. From then on each agent is supervised until it is
// stopped.
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

// start starts a, if it is down, and waits until the start is over.
func (a *Agent) start(ctx context.Context) {
	a.superviseOnce.Do(func() { a.set.tasks.Go(func() { a.superviseLoop() }) })
	done := make(chan struct{})
	select {
	case a.startRequests <- done:
	case <-a.gone:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-a.gone:
	case <-ctx.Done():
	}
}

// StartAfter has the first start of a wait until nothing is left of old, which is
// being stopped. It must be called before Start.
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

// DrainAndStop stops an agent that is no longer in pmcd.conf, once it has
// answered the requests that had begun before. It returns when nothing is left of
// it, or ctx ends.
func (a *Agent) DrainAndStop(ctx context.Context) {
	if c := a.Conn(); c != nil {
		c.inflight.drain(ctx, drainTimeout)
	}
	a.stop(errUnconfigured)
	select {
	case <-a.gone:
	case <-ctx.Done():
	}
}

// stop stops a for good. It returns when clients see that; a.gone is closed when
// nothing is left of a.
func (a *Agent) stop(why error) {
	a.cancel(why)
	a.superviseOnce.Do(func() { // it was never started
		a.stopped()
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
	defer a.stopped()
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
		if a.ctx.Err() != nil { // whatever else is due
			return
		}
		if requested != nil {
			a.resetFailures()
		}
		quiet := a.failures() > logThreshold
		if requested == nil && !quiet {
			cfg.Limiter.Log(slog.LevelInfo, "restart", "Auto-restarting agents.") // C pmcd starts agents no more often
		}
		c, err := a.connect()
		restart = nil
		switch {
		case err != nil && a.ctx.Err() == nil:
			why, last := splitStack(err)
			if e := (*transport.OpenError)(nil); errors.As(err, &e) {
				last = stderrTail(e.StderrTail)
			}
			restart = a.failed(a.startFailed, "cannot start {agent:q} agent (dom {domain})", why, last)
		case err == nil && requested == nil:
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
			restart = a.failed(a.ended, "agent {agent:q} (dom {domain}) is down", ended, last, attrs...)
		}
	}
}

// connect starts a, or finds it, within the time for the handshake (-q).
func (a *Agent) connect() (*Conn, error) {
	cfg := &a.set.cfg
	a.starting()
	ctx, cancel := transport.StartContext(a.ctx, cfg.HandshakeTimeout())
	defer cancel()
	spec := a.Spec()
	opened, err := cfg.Open(ctx, spec, wire.Options{
		PID:      int32(os.Getpid()),
		NotReady: spec.NotReady,
		Depth:    8,
		Counts:   cfg.Counts,
		OnPDU:    a.tracePDU,
		OnState:  a.onTransportState,
	})
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: opened, Agent: a, announced: make(chan struct{})}
	if a.ctx.Err() != nil { // stopped meanwhile: Open may not heed ctx
		c.shutdown()
		if c.Process != nil {
			c.Process.Stop(cfg.Kill)
		}
		return nil, context.Cause(a.ctx)
	}
	if c.State() == transport.Ready {
		cfg.Observer.AgentReady(a, false)
	}
	a.connected(c)
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

// awaitFailure blocks until c is disconnected, and may disconnect it. If a start
// is requested then, it returns that request.
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
			if n := a.resetFailures(); n > logThreshold {
				cfg.Log.Info("agent {agent:q} (dom {domain}) recovered after {attempt} failures", "agent", a.Name(), "domain", a.Domain, "attempt", n)
			}
		case <-ticks:
			checkIdle()
		case <-a.stateChanged:
			grace.Stop()
			if since = a.lateSince(); !since.IsZero() {
				grace.Reset(time.Until(since.Add(a.set.lateGrace())))
			}
		case <-grace.C:
			if a.lateSince() != since { // stateChanged is ready, too
				continue
			}
			if c.Process == nil && c.In < 0 {
				cfg.Log.Warn("agent {agent:q} (dom {domain}) runs in pmcd's process and cannot be killed; requests fail until it replies",
					"agent", a.Name(), "domain", a.Domain)
				continue
			}
			c.Disconnect(fmt.Errorf("no answer for %v after its time", round(time.Since(since))))
			return nil
		}
	}
}

// lateGrace is how long an agent may be late.
func (s *Set) lateGrace() time.Duration {
	const forever = 1 << 62
	switch g, timeout := s.cfg.LateGrace, s.cfg.RequestTimeout(); {
	case g < 0:
		return 0
	case g > 0:
		return g
	case timeout > 0:
		return 10 * timeout
	}
	return forever // a client has switched the timeout off since then
}

// onTransportState is called when the state of the transport of a has changed.
func (a *Agent) onTransportState(s transport.State) {
	cfg := &a.set.cfg
	was := a.transportState(s)
	cfg.Observer.AgentChanged(a)
	message := "agent {agent:q} (dom {domain}) is {state}"
	attrs := []any{"agent", a.Name(), "domain", a.Domain, "state", s}
	if c := a.Conn(); s == transport.Late && c != nil {
		if w, ok := c.Transport.(transport.AbandonCounter); ok {
			message += ", calls abandoned so far: {abandoned}"
			attrs = append(attrs, "abandoned", w.Abandoned())
		}
		if p, ok := c.Pending(); ok {
			message += "; no answer to {request} for client[{client}] in {waited}"
			attrs = append(attrs, "request", p.Type, "client", p.Client, "waited", round(time.Since(p.Since)))
		}
	}
	cfg.Limiter.Log(slog.LevelInfo, fmt.Sprint("state ", a.Domain, s), message, attrs...)
	if s == transport.Ready {
		cfg.Observer.AgentReady(a, was == transport.NotReady)
	}
	select {
	case a.stateChanged <- struct{}{}:
	default:
	}
}

// tracePDU puts a PDU of a in the trace and in the log. Until a is connected its
// descriptors are not known.
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
