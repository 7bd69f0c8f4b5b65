package gate

import (
	"testing"
	"time"
)

// While sessions let each other in, a tick that is late is made up for: the next one waits
// until the scheduler has looked for input.
func TestLateTick(t *testing.T) {
	g := closedGate(t, 1)
	now := time.Second
	g.clock = func() time.Duration { return now }
	a, b, c := g.Place(key(1, 1)), g.Place(key(2, 1)), g.Place(key(3, 1))
	entered := g.enter(a, b, c)
	g.onLook()
	<-entered[0]
	g.last = now
	now += tick
	a.Leave() // no tick is late
	<-entered[1]
	now += tick
	b.Leave()
	g.check(t, 0, 1)
	if !g.asked {
		t.Error("the gate does not look for input")
	}
	g.onLook()
	<-entered[2]
	c.Leave()
}

// As many sessions as have entered in a tick are let in at the next look, but only while
// their turns are short: each of them may compute for a slice.
func TestLetInAtOnce(t *testing.T) {
	const many = 10
	for _, tt := range []struct {
		name    string
		between time.Duration // of two ticks
		long    bool          // a session computes for a slice
		want    int
	}{
		{"short turns", tick, false, many},
		{"a long one", tick, true, 1},
		{"a tick that is late", 5 * tick, false, many / 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := closedGate(t, 1)
			now := time.Second
			g.clock = func() time.Duration { return now }
			p := g.Place(key(1, 1))
			entered := entering(p)
			g.awaitQueue(1)
			g.onLook()
			<-entered
			g.steps(2) // it closes
			if tt.long {
				now += sliceTime + 1
			}
			if p.Overdue() != tt.long {
				t.Errorf("overdue: %t", !tt.long)
			}
			g.entered.Add(many)
			g.last = now
			now += tt.between
			p.Leave()
			var places []*Place
			for i := range 2 * many {
				places = append(places, g.Place(key(2, uint64(i))))
			}
			g.mu.Lock()
			g.paused = true
			g.closed.Store(true)
			g.mu.Unlock()
			g.enter(places...)
			g.mu.Lock()
			if g.last != now { // Leave has not made up for the tick
				g.step()
			}
			g.mu.Unlock()
			g.onLook()
			if n := g.count(); n != tt.want {
				t.Errorf("%d are let in at once, want %d", n, tt.want)
			}
			g.Close()
		})
	}
}
