package gate

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// If goroutines never wait, the Gate closes, all get their turns, and it opens when they
// have ended.
func TestOverload(t *testing.T) {
	g := New()
	defer g.Close()
	var sawClosed atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			p := g.Place(key(uint64(i%5), uint64(i)))
			for left := 50; left > 0; {
				p.Enter()
				for range 20_000 {
					r.Uint64()
				}
				if p.Overdue() {
					other := p.Fork()
					p.Leave()
					other.Enter()
					other.Leave()
				}
				p.Leave()
				if sawClosed.Load() {
					left--
				} else if g.closed.Load() {
					sawClosed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for g.closed.Load() || g.ticking.Load() {
		runtime.Gosched()
	}
	g.check(t, 0, 0)
}

// Load names the group with the most turns, however many groups there are.
func TestLoad(t *testing.T) {
	var l load
	for i := range 4 * maxGroups {
		l.count(fairqueue.Group{ID: 7})
		l.count(fairqueue.Group{ID: 1000 + uint64(i)})
	}
	if n := len(l.groups); n > maxGroups {
		t.Errorf("%d groups are counted", n)
	}
	g := closedGate(t, 1)
	g.load = l
	g.enter(g.Place(key(7, 1)), g.Place(key(8, 1)))
	g.onLook()
	var now time.Duration
	g.clock = func() time.Duration { return now }
	for range 5 { // the ticks are late
		now += 3 * tick
		g.steps(1)
	}
	got := g.Load()
	if got.Most.ID != 7 || got.Turns != 8*maxGroups+1 || got.Closed != 15*tick || got.OfMost < maxGroups || got.OfMost > 4*maxGroups+1 {
		t.Errorf("%+v", got)
	}
	if got := g.Load(); got != (Load{}) {
		t.Errorf("after that: %+v", got)
	}
}

func BenchmarkGate(b *testing.B) {
	g := New()
	defer g.Close()
	var n atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		p := g.Place(key(n.Add(1), 1))
		for pb.Next() {
			p.Enter()
			p.Leave()
		}
	})
}
