package agentset

import (
	"context"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A startRequest asks superviseLoop to start an agent that is down.
type startRequest struct {
	after <-chan struct{} // the start may begin when it is closed; nil is at once
	over  chan struct{}   // closed when the start is over
}

// Start starts the agents of list that are down. It starts pmdaroot first, because other
// agents connect to it once, at their start, and then all others at the same time. While
// pmdaroot starts, it calls Config.Preload for the others. It returns when all starts are over,
// or ctx ends. From then on each agent is supervised until it is stopped.
func (s *Set) Start(ctx context.Context, list []*Agent) {
	var wg sync.WaitGroup
	var afterRoot chan struct{} // nil without pmdaroot
	if i := slices.IndexFunc(list, (*Agent).isRoot); i >= 0 {
		afterRoot = make(chan struct{})
		wg.Go(func() {
			list[i].start(ctx, nil)
			if ctx.Err() == nil { // otherwise the others wait until they are stopped
				close(afterRoot)
			}
		})
	}
	for _, a := range list {
		if !a.isRoot() {
			wg.Go(func() { a.start(ctx, afterRoot) })
		}
	}
	wg.Wait()
}

func (a *Agent) isRoot() bool { return a.Domain == pmcdconf.RootDomain }

// start starts a, if it is down, when after is closed, and waits until the start is over.
func (a *Agent) start(ctx context.Context, after <-chan struct{}) {
	a.superviseOnce.Do(func() { a.set.tasks.Go(func() { a.superviseLoop() }) })
	r := &startRequest{after: after, over: make(chan struct{})}
	select {
	case a.startRequests <- r:
	case <-a.gone:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-r.over:
	case <-a.gone:
	case <-ctx.Done():
	}
}

// StartAfter makes the first start of a wait for the end of old, which is being stopped. It
// must be called before Start.
func (a *Agent) StartAfter(old *Agent) { a.startAfter = append(a.startAfter, old.gone) }

// preload prepares the start of a while after is not closed. It returns when after is closed
// or a must stop. discard must be called after the start.
func (a *Agent) preload(spec *pmcdconf.Agent, after <-chan struct{}) (discard func()) {
	discard = func() {}
	if closed(after) {
		return discard
	}
	if cfg := &a.set.cfg; cfg.Preload != nil {
		ctx, cancel := transport.StartContext(a.ctx, cfg.HandshakeTimeout())
		discard = cfg.Preload(ctx, spec)
		cancel()
	}
	select {
	case <-after:
	case <-a.ctx.Done():
	}
	return discard
}
