package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// logThreshold is how many failures in a row have a line in the log each. Further
// ones have one line a minute.
const logThreshold = 2

// idleCheckInterval is how often an idle socket is checked.
const idleCheckInterval = time.Second

// Why pmcd stops an agent that has not failed.
var (
	errUnconfigured = errors.New("unconfigured")
	errTerminated   = errors.New("terminated")
)

// startAgents starts those of list that are down, all at once, except that
// pmdaroot comes first: others connect to it once, when they start. It returns
// when all starts are over. From then on each agent is supervised until it is
// stopped.
func (d *Daemon) startAgents(ctx context.Context, list []*agent) {
	var wg sync.WaitGroup
	for _, a := range list {
		if a.domain == pmcdconf.RootDomain {
			d.startAgent(ctx, a)
		}
	}
	for _, a := range list {
		if a.domain != pmcdconf.RootDomain {
			wg.Go(func() { d.startAgent(ctx, a) })
		}
	}
	wg.Wait()
}

// startAgent starts a, if it is down, and waits until the start is over.
func (d *Daemon) startAgent(ctx context.Context, a *agent) {
	a.superviseOnce.Do(func() { d.tasks.Go(func() { d.superviseLoop(a) }) })
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

// stopAgent stops a for good. It returns when clients see that; a.gone is closed
// when nothing is left of a.
func (d *Daemon) stopAgent(a *agent, why error) {
	a.cancel(why)
	a.superviseOnce.Do(func() { // it was never started
		a.stopped()
		a.markStarted()
		close(a.gone)
	})
	if l := a.conn.Load(); l != nil {
		d.disconnect(a, l, why)
	}
}

// stopAgents stops all agents at once and waits for their processes.
func (d *Daemon) stopAgents() {
	var wg sync.WaitGroup
	for _, a := range d.routes.Load().list {
		wg.Go(func() {
			d.stopAgent(a, errTerminated)
			<-a.gone
		})
	}
	wg.Wait()
}

// superviseLoop starts a at each request to start it, and again some time after
// each failure, until a is stopped. Only superviseLoop starts a.
func (d *Daemon) superviseLoop(a *agent) {
	defer close(a.gone)
	defer a.markStarted()
	defer a.stopped()
	for _, gone := range a.startAfter {
		<-gone
	}
	var restart <-chan time.Time
	for {
		var requested chan<- struct{} // nil if it is a restart
		select {
		case <-a.ctx.Done():
			return
		case requested = <-a.startRequests:
			a.resetFailures()
		case <-restart:
		}
		quiet := a.failures() > logThreshold
		if requested == nil && !quiet {
			d.limiter.Log(zap.InfoLevel, "restart", "Auto-restarting agents.") // C pmcd starts agents no more often
		}
		l, err := d.connect(a)
		restart = nil
		switch {
		case err != nil && a.ctx.Err() == nil:
			why, last := splitStack(err)
			if e := (*transport.OpenError)(nil); errors.As(err, &e) {
				last = stderrTail(e.StderrTail)
			}
			restart = d.failed(a, a.startFailed, fmt.Sprintf("cannot start %q agent (dom %d)", a.name(), a.domain), why, last)
		case err == nil && requested == nil:
			d.seqnum.Add(1)
			d.notice(pdu.StateAddAgent | pdu.StateRestartAgent)
			// The table is long if there are many agents, and many may be restarted.
			if !quiet && d.limiter.Allow("table of agents") {
				d.logAgents(d.routes.Load())
			}
		}
		a.markStarted()
		if requested != nil {
			close(requested)
		}
		if l == nil {
			continue
		}
		up := time.Now()
		d.awaitFailure(a, l)
		ended, last := d.reap(l, up)
		if a.ctx.Err() == nil {
			restart = d.failed(a, a.ended, fmt.Sprintf("agent %q (dom %d) is down", a.name(), a.domain), ended, last)
		}
	}
}

// awaitFailure blocks until l is disconnected, and may disconnect it.
func (d *Daemon) awaitFailure(a *agent, l *agentConn) {
	var checkIdle func()
	var ticks <-chan time.Time
	if c, ok := l.Transport.(transport.IdleChecker); ok && a.spec.Load().Kind == pmcdconf.Socket {
		t := time.NewTicker(idleCheckInterval)
		defer t.Stop()
		checkIdle, ticks = c.CheckIdle, t.C
	}
	stableTimer := time.NewTimer(stableAfter)
	defer stableTimer.Stop()
	grace := time.NewTimer(time.Hour)
	defer grace.Stop()
	grace.Stop()
	for {
		select {
		case <-l.Done():
			d.disconnect(a, l, nil)
			return
		case <-a.ctx.Done():
			d.disconnect(a, l, context.Cause(a.ctx))
			return
		case requested := <-a.startRequests: // it is connected
			close(requested)
		case <-stableTimer.C:
			if n := a.resetFailures(); n > logThreshold {
				d.log.Info(fmt.Sprintf("agent %q (dom %d) recovered after %d failures", a.name(), a.domain, n))
			}
		case <-ticks:
			checkIdle()
		case <-a.stateChanged:
			grace.Stop()
			if since := a.lateSince(); !since.IsZero() {
				grace.Reset(time.Until(since.Add(d.grace())))
			}
		case <-grace.C:
			since := a.lateSince()
			if since.IsZero() {
				continue
			}
			if l.Process == nil && l.In < 0 {
				d.log.Warn(fmt.Sprintf("agent %q (dom %d) runs in pmcd's process and cannot be killed; requests fail until it replies", a.name(), a.domain))
				continue
			}
			d.disconnect(a, l, fmt.Errorf("no answer for %v after its time", round(time.Since(since))))
			return
		}
	}
}

// grace is how long an agent may be late.
func (d *Daemon) grace() time.Duration {
	const ever = 1 << 62
	switch g, timeout := d.cfg.LateGrace, time.Duration(d.timeout.Load()); {
	case g < 0:
		return 0
	case g > 0:
		return g
	case timeout > 0:
		return 10 * timeout
	}
	return ever // a client has switched the timeout off since then
}

// transportState is called when the state of the transport of a has changed.
func (d *Daemon) transportState(a *agent, s wire.State) {
	was := a.transportState(s)
	d.HealthChanged()
	text := fmt.Sprintf("agent %q (dom %d) is %v", a.name(), a.domain, s)
	if l := a.conn.Load(); s == wire.Late && l != nil {
		if w, ok := l.Transport.(transport.AbandonCounter); ok {
			text += fmt.Sprintf(", calls abandoned so far: %d", w.Abandoned())
		}
		if p, ok := l.Pending(); ok {
			text += fmt.Sprintf("; no answer to %v for client[%d] in %v", p.Type, p.Client, round(time.Since(p.Since)))
		}
	}
	d.limiter.Log(zap.InfoLevel, fmt.Sprint("state ", a.domain, s), "%s", text)
	if s == wire.Ready {
		d.namesBack(a.domain)
	}
	if s == wire.Ready && was == wire.NotReady {
		select { // its names may be new
		case d.nameChanges <- struct{}{}:
		default:
		}
	}
	select {
	case a.stateChanged <- struct{}{}:
	default:
	}
}
