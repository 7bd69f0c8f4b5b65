package gate

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
)

// When a Gate ends, all go on.
func TestClose(t *testing.T) {
	g := closedGate(t, 1)
	var places []*Place
	for i := range 10 {
		places = append(places, g.Place(key(2, uint64(i))))
	}
	entered := g.enter(places...)
	g.Close()
	for _, e := range entered {
		<-e
	}
	g.Place(key(1, 1)).Enter()
}

// When a Gate with ticks ends, those that wait and those that come and go all go on, and
// nothing of it is left.
func TestCloseWithTicks(t *testing.T) {
	testutil.CheckLeaks(t)
	g := New()
	g.places = 1
	visit := func(p *Place) {
		p.Enter()
		p.Leave()
	}
	for first, shut := g.Place(key(1, 1)), false; !shut; {
		visit(first)
		g.mu.Lock()
		if shut = g.ticking.Load() && !g.asked; shut {
			g.closed.Store(true)
			g.paused, g.asked = true, true // nothing was written: no look ends the pause
		}
		g.mu.Unlock()
	}
	const waiters = 1000
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(g.Place(key(2, uint64(i))).Enter)
	}
	testutil.Eventually(t, "all wait", func() bool { return g.queued() == waiters })
	var over atomic.Bool
	for i := range 4 {
		p := g.Place(key(3, uint64(i)))
		all.Go(func() {
			for !over.Load() {
				visit(p)
			}
		})
	}
	g.mu.Lock()
	g.asked = false
	g.find() // from now on, looks let in some of them
	g.mu.Unlock()
	var closed sync.WaitGroup
	for range 2 {
		closed.Go(g.Close)
	}
	closed.Wait()
	for p := g.Place(key(4, 1)); g.entered.Load() < 10*many; {
		visit(p)
	}
	over.Store(true)
	all.Wait()
	if g.Closed() {
		t.Error("closed")
	}
}

// If the pipe fails, the Gate is open for ever.
func TestPipeFails(t *testing.T) {
	g := New()
	p := g.Place(key(1, 1))
	for range few {
		p.Enter()
		p.Leave()
	}
	g.mu.Lock()
	g.closed.Store(true)
	g.paused = true
	g.mu.Unlock()
	entered := entering(g.Place(key(1, 2)))
	g.look.Close()
	<-entered
	<-g.polled
	for range 10 * few {
		p.Enter()
		p.Leave()
	}
	if g.closed.Load() {
		t.Error("closed")
	}
}
