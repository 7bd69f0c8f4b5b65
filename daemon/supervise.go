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

// loud is how many failures in a row have lines in the log of their own.
const loud = 2

// How often an idle socket is looked at.
const peekTime = time.Second

// Why an agent is given up that has done nothing wrong.
var (
	errUnconfigured = errors.New("unconfigured")
	errTerminated   = errors.New("terminated")
)

// startAgents starts those of list that are down, all at once, except that
// pmdaroot comes first: others connect to it once, when they start. It returns
// when all have settled. From then on each is kept up until it is retired.
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

// startAgent has a started, if it is down, and waits for how that ends.
func (d *Daemon) startAgent(ctx context.Context, a *agent) {
	a.begin.Do(func() { d.tasks.Go(func() { d.keep(a) }) })
	done := make(chan struct{})
	select {
	case a.asks <- done:
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

// retire ends a for good. It returns when that is visible to clients; a.gone
// says when nothing is left of it.
func (d *Daemon) retire(a *agent, why error) {
	a.retired(why)
	a.begin.Do(func() { // nobody keeps it
		a.stopped()
		a.settle()
		close(a.gone)
	})
	if l := a.conn.Load(); l != nil {
		d.drop(a, l, why)
	}
}

// stopAgents ends all agents at once and waits for their processes.
func (d *Daemon) stopAgents() {
	var wg sync.WaitGroup
	for _, a := range d.routes.Load().list {
		wg.Go(func() {
			d.retire(a, errTerminated)
			<-a.gone
		})
	}
	wg.Wait()
}

// keep starts a when it is asked to, and again by itself when it has failed,
// until a is retired. Only keep starts a.
func (d *Daemon) keep(a *agent) {
	defer close(a.gone)
	defer a.settle()
	defer a.stopped()
	for _, gone := range a.after {
		<-gone
	}
	var again <-chan time.Time
	for {
		var asked chan<- struct{}
		select {
		case <-a.ctx.Done():
			return
		case asked = <-a.asks:
			a.resetFailures()
		case <-again:
		}
		quiet := a.failures() > loud
		if asked == nil && !quiet {
			d.limiter.Log(zap.InfoLevel, "restart", "Auto-restarting agents.") // C pmcd starts agents no more often
		}
		l, err := d.connect(a)
		again = nil
		switch {
		case err != nil && a.ctx.Err() == nil:
			why, last := splitStack(err)
			if e := (*transport.OpenError)(nil); errors.As(err, &e) {
				last = stderrTail(e.StderrTail)
			}
			again = d.failed(a, a.startFailed, fmt.Sprintf("cannot start %q agent (dom %d)", a.name(), a.domain), why, last)
		case err == nil && asked == nil:
			d.seqnum.Add(1)
			d.notice(pdu.StateAddAgent | pdu.StateRestartAgent)
			// The table is long where there are many, of which many may come back.
			if !quiet && d.limiter.Allow("table of agents") {
				d.logAgents(d.routes.Load())
			}
		}
		a.settle()
		if asked != nil {
			close(asked)
		}
		if l == nil {
			continue
		}
		up := time.Now()
		d.watch(a, l)
		ended, last := d.bury(l, up)
		if a.ctx.Err() == nil {
			again = d.failed(a, a.ended, fmt.Sprintf("agent %q (dom %d) is down", a.name(), a.domain), ended, last)
		}
	}
}

// watch returns when l is given up, for which it may be the reason.
func (d *Daemon) watch(a *agent, l *agentConn) {
	var checkIdle func()
	var ticks <-chan time.Time
	if c, ok := l.Transport.(transport.IdleChecker); ok && a.spec.Load().Kind == pmcdconf.Socket {
		t := time.NewTicker(peekTime)
		defer t.Stop()
		checkIdle, ticks = c.CheckIdle, t.C
	}
	well := time.NewTimer(stableAfter)
	defer well.Stop()
	grace := time.NewTimer(time.Hour)
	defer grace.Stop()
	grace.Stop()
	for {
		select {
		case <-l.Done():
			d.drop(a, l, nil)
			return
		case <-a.ctx.Done():
			d.drop(a, l, context.Cause(a.ctx))
			return
		case asked := <-a.asks: // it is up
			close(asked)
		case <-well.C:
			if n := a.resetFailures(); n > loud {
				d.log.Info(fmt.Sprintf("agent %q (dom %d) recovered after %d failures", a.name(), a.domain, n))
			}
		case <-ticks:
			checkIdle()
		case <-a.changed:
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
			d.drop(a, l, fmt.Errorf("no answer for %v after its time", round(time.Since(since))))
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
	return ever // it was late before a client stored that none can be
}

// agentState is told when an agent is late, not ready, or well again.
func (d *Daemon) agentState(a *agent, s wire.State) {
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
	case a.changed <- struct{}{}:
	default:
	}
}
