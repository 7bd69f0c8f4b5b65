package agentset

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An Agent is the agent of one line of pmcd.conf. It exists until a reload removes or
// changes the line, and may have several connections in that time. Its methods may be
// called by several goroutines at a time.
type Agent struct {
	Domain int // never changes

	life    lifecycle
	set     *Set
	spec    atomic.Pointer[pmcdconf.Agent]
	started chan struct{} // closed when the first start has succeeded or failed, or hangs
	latency latencyStats

	// For superviseLoop.
	superviseOnce sync.Once          // starts its goroutine
	startedOnce   sync.Once          // closes started
	overdue       atomic.Bool        // start has not waited for the end of a start
	startRequests chan chan struct{} // what is sent is closed when the start is over
	stateChanged  chan struct{}      // holds one value when the state may have changed
	ctx           context.Context    // ends when the agent is to stop; its cause is the reason
	cancel        context.CancelCauseFunc
	startAfter    []<-chan struct{} // the first start waits until they are closed
	gone          chan struct{}     // closed when superviseLoop has returned
}

// NewAgent returns an agent that is not started yet.
func (s *Set) NewAgent(spec *pmcdconf.Agent) *Agent {
	a := &Agent{
		Domain:        spec.Domain,
		set:           s,
		started:       make(chan struct{}),
		startRequests: make(chan chan struct{}),
		stateChanged:  make(chan struct{}, 1),
		gone:          make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.spec.Store(spec)
	return a
}

// Spec returns the line of pmcd.conf.
func (a *Agent) Spec() *pmcdconf.Agent { return a.spec.Load() }

// SetSpec replaces the line of pmcd.conf by one that differs in the name only.
func (a *Agent) SetSpec(spec *pmcdconf.Agent) { a.spec.Store(spec) }

// Name returns the name in pmcd.conf.
func (a *Agent) Name() string { return a.Spec().Name }

// Conn returns the connection to a; nil if there is none.
func (a *Agent) Conn() *Conn { return a.life.conn.Load() }

// AwaitConn returns the connection to a. If there is none, it waits until the first start
// is over; it returns nil if there is none then.
func (a *Agent) AwaitConn() *Conn {
	if c := a.life.conn.Load(); c != nil {
		return c
	}
	<-a.started
	return a.life.conn.Load()
}

// Started returns a channel that is closed when the first start has succeeded or
// failed, hangs, or will not take place.
func (a *Agent) Started() <-chan struct{} { return a.started }

// markStarted wakes the requests that wait for the first start.
func (a *Agent) markStarted() { a.startedOnce.Do(func() { close(a.started) }) }

// Fenced reports whether requests of clients are to be refused.
func (a *Agent) Fenced() bool { return a.life.fenced.Load() }

// SetFenced sets whether requests of clients are to be refused (pmcd.agent.fenced).
// The end of the connection clears it.
func (a *Agent) SetFenced(on bool) {
	a.life.fenced.Store(on)
	a.set.cfg.Observer.AgentChanged(a)
}

// TakesRequests reports whether a is connected, ready and not fenced.
func (a *Agent) TakesRequests() bool {
	c := a.life.conn.Load()
	return c != nil && !a.life.fenced.Load() && c.State() == transport.Ready
}

// RequestAnswered counts a request that was answered. It took from began to done,
// and the answer was waited for from asked on.
func (a *Agent) RequestAnswered(began, asked, done time.Time) { a.latency.answered(began, asked, done) }

// RequestAbandoned counts a request that will fail because its answer did not
// come in time.
func (a *Agent) RequestAbandoned() { a.latency.requestAbandoned() }

// TypicalLatency returns how long a usually takes to answer.
func (a *Agent) TypicalLatency() time.Duration { return a.latency.typical() }

// closed reports whether c is closed or nil. Nothing is sent to c.
func closed(c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}
