package gate

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// key returns the key of a member of a group.
func key(group, member uint64) *fairqueue.Key {
	return &fairqueue.Key{Group: fairqueue.Group{ID: group}, Member: member}
}

// manual returns a Gate in which time passes and the scheduler looks for input only when the
// test says so.
func manual(t *testing.T, places int) *Gate {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	g := New()
	g.places, g.look = places, w
	g.clock = func() time.Duration { return 0 }
	g.ticking.Store(true)
	return g
}

// closedGate returns a manual Gate that is closed until the next look.
func closedGate(t *testing.T, places int) *Gate {
	g := manual(t, places)
	g.Place(key(0, 0)).Enter()
	g.steps(2)
	if !g.closed.Load() {
		t.Fatal("not closed")
	}
	return g
}

// enter has a goroutine enter the Gate for each of places, one after the other.
func (g *Gate) enter(places ...*Place) (entered []<-chan struct{}) {
	n := g.queued()
	for i, p := range places {
		entered = append(entered, entering(p))
		g.awaitQueue(n + i + 1)
	}
	return entered
}

// steps lets n ticks pass.
func (g *Gate) steps(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range n {
		g.step()
	}
}

// awaitQueue waits until n Places wait.
func (g *Gate) awaitQueue(n int) {
	for g.queued() != n {
		runtime.Gosched()
	}
}

func (g *Gate) queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len()
}

// entering has a goroutine enter p. What it returns is closed when p has entered.
func entering(p *Place) <-chan struct{} {
	entered := make(chan struct{})
	go func() {
		defer close(entered)
		p.Enter()
	}()
	return entered
}

// count returns how many have a place.
func (g *Gate) count() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.inside {
		if p.state.Load() == inside {
			n++
		}
	}
	return n
}

func (g *Gate) check(t *testing.T, inside, queued int) {
	t.Helper()
	if n := g.count(); n != inside {
		t.Errorf("%d have a place, not %d", n, inside)
	}
	if n := g.queued(); n != queued {
		t.Errorf("%d wait, not %d", n, queued)
	}
}

func TestOpenGate(t *testing.T) {
	g := manual(t, 1)
	for range 3 {
		p := g.Place(key(1, 1))
		p.Enter()
		p.Enter()
		if p.Overdue() {
			t.Error("overdue")
		}
		defer p.Leave()
	}
	g.check(t, 0, 0)
}

// A Gate closes if the scheduler does not look for input for a tick, and opens when it has
// looked.
func TestClosesAndOpens(t *testing.T) {
	g := manual(t, 1)
	p := g.Place(key(1, 1))
	for range 10 {
		p.Enter()
		p.Leave()
		g.onLook()
		g.steps(1)
		if g.closed.Load() {
			t.Fatal("closed although the scheduler looks for input")
		}
		g.onLook()
	}
	p.Enter()
	g.steps(2)
	if !g.closed.Load() {
		t.Fatal("not closed")
	}
	if !p.Overdue() {
		t.Error("a session that was let in before is not overdue")
	}
	g.onLook()
	if g.closed.Load() {
		t.Error("still closed")
	}
}

// An open Gate also closes after many turns without a look.
func TestClosesAfterManyTurns(t *testing.T) {
	g := manual(t, 1)
	p := g.Place(key(1, 1))
	n := 0
	for ; !g.closed.Load(); n++ {
		p.Enter()
		p.Leave()
	}
	if n != 2*few {
		t.Errorf("closed after %d turns, not %d", n, 2*few)
	}
	g.onLook()
	for range 10 {
		g.onLook()
	}
	for n = 0; !g.closed.Load(); n++ {
		p.Enter()
		p.Leave()
	}
	if n < many || n > 3*many {
		t.Errorf("closed after %d turns when the scheduler has always looked, not %d to %d", n, many, 3*many)
	}
	g.enter(g.Place(key(1, 2)))
	g.onLook()
	if n := g.every.Load(); n != few {
		t.Errorf("looks after %d turns when the Gate has closed, not %d", n, few)
	}
}

// While there is nothing to do there are no ticks.
func TestTicksEnd(t *testing.T) {
	g := manual(t, 1)
	g.Place(key(1, 1)).Enter()
	g.steps(1)
	g.onLook()
	if !g.ticking.Load() {
		t.Error("no ticks although a session has entered since the last one")
	}
	g.steps(1)
	if g.ticking.Load() {
		t.Error("ticks although no session has entered")
	}
}

func TestPlacesAreBounded(t *testing.T) {
	g := closedGate(t, 2)
	a, b, c, d := g.Place(key(1, 1)), g.Place(key(1, 2)), g.Place(key(1, 3)), g.Place(key(1, 4))
	entered := g.enter(a, b, c, d)
	g.check(t, 0, 4)
	g.onLook()
	<-entered[0]
	<-entered[1]
	a.Enter() // has no effect
	g.check(t, 2, 2)
	a.Leave()
	a.Leave() // has no effect
	<-entered[2]
	g.check(t, 2, 1)
	b.Leave()
	<-entered[3]
	g.check(t, 2, 0)
	if g.closed.Load() {
		t.Error("closed although none waits")
	}
	c.Leave()
	d.Leave()
	g.check(t, 0, 0)
}

// As many are let in after a look as have entered in the last tick.
func TestLetsInAsManyAsInATick(t *testing.T) {
	g := manual(t, 1)
	g.Place(key(1, 1)).Enter()
	g.steps(1)
	for range 5 {
		g.Place(key(1, 1)).Enter()
	}
	g.steps(1)
	var places []*Place
	for i := range 8 {
		places = append(places, g.Place(key(2, uint64(i))))
	}
	g.enter(places...)
	g.onLook()
	g.check(t, 5, 3)
	g.steps(1)
	for _, p := range places {
		p.Leave() // none is let in before the next look
	}
	g.check(t, 0, 3)
	g.onLook()
	g.check(t, 3, 0)
}

// A client waits for one session of each other client, however many those have.
func TestClientsTakeTurns(t *testing.T) {
	g := closedGate(t, 1)
	var order []string
	var wg sync.WaitGroup
	queued := 0
	add := func(group, member uint64, n int) {
		for range n {
			p := g.Place(key(group, member))
			wg.Go(func() {
				p.Enter()
				order = append(order, fmt.Sprintf("%d.%d", group, member))
				p.Leave()
			})
			queued++
			g.awaitQueue(queued)
		}
	}
	add(1, 1, 200)
	add(1, 2, 2)
	add(2, 1, 3)
	g.onLook()
	wg.Wait()
	want := []string{"1.1", "2.1", "1.2", "2.1", "1.1", "2.1", "1.2", "1.1", "1.1"}
	if got := order[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
	g.check(t, 0, 0)
}

// A place that is not left goes to the next when it was held for a whole slice.
func TestPlaceIsTaken(t *testing.T) {
	g := closedGate(t, 1)
	a, b, c := g.Place(key(1, 1)), g.Place(key(2, 1)), g.Place(key(3, 1))
	entered := g.enter(a, b, c)
	g.onLook()
	<-entered[0]
	slice := int(sliceTime / tick)
	g.steps(slice)
	g.onLook()
	g.check(t, 1, 2)
	if a.Overdue() {
		t.Error("overdue in the slice after the one in which it was let in")
	}
	g.onLook()
	g.steps(slice - 1)
	g.onLook()
	g.check(t, 1, 2)
	g.steps(1)
	<-entered[1]
	if !a.Overdue() {
		t.Error("a Place that was taken is not overdue")
	}
	if b.Overdue() {
		t.Error("overdue at once")
	}
	a.Leave() // has no effect
	g.check(t, 1, 1)
	b.Leave()
	g.onLook()
	<-entered[2]
	c.Leave()
	g.check(t, 0, 0)
}

// A session that has entered an open Gate, and computes for more than a slice, waits until
// the scheduler has looked for input, even if there are no ticks.
func TestOverdueInOpenGate(t *testing.T) {
	g := manual(t, 1)
	now := time.Second
	g.clock = func() time.Duration { return now }
	outside, p := g.Place(key(1, 1)), g.Place(key(2, 1))
	for range 2 {
		p.Enter()
		if p.Overdue() {
			t.Error("overdue at once")
		}
		if now += sliceTime; p.Overdue() {
			t.Error("overdue after a slice")
		}
		if now++; outside.Overdue() || g.closed.Load() {
			t.Error("the Gate closes for a session that is outside")
		}
		if !p.Overdue() {
			t.Error("not overdue after more than a slice")
		}
		p.Leave()
		entered := g.enter(p)
		g.check(t, 0, 1)
		g.onLook()
		<-entered[0]
		if g.closed.Load() {
			t.Error("the Gate is closed after the look")
		}
		p.Leave()
	}
}

// A session that looks at the time itself is overdue after a slice, however late the ticks
// are.
func TestOverdueByTheClock(t *testing.T) {
	g := closedGate(t, 1)
	var now time.Duration
	g.clock = func() time.Duration { return now }
	a, b := g.Place(key(1, 1)), g.Place(key(2, 1))
	entered := g.enter(a, b)
	g.onLook()
	<-entered[0]
	if now = sliceTime; a.Overdue() {
		t.Error("overdue after a slice")
	}
	if now++; !a.Overdue() {
		t.Error("not overdue after more than a slice")
	}
	a.Leave()
	g.onLook()
	<-entered[1]
	if now++; b.Overdue() {
		t.Error("overdue at once")
	}
	b.Leave()
}

// Between two requests it is overdue earlier, if others wait. That is not a long turn.
func TestOverdueBetween(t *testing.T) {
	g := closedGate(t, 1)
	var now time.Duration
	g.clock = func() time.Duration { return now }
	a, b := g.Place(key(1, 1)), g.Place(key(2, 1))
	entered := g.enter(a, b)
	g.onLook()
	<-entered[0]
	if now = turnTime; a.OverdueBetween() {
		t.Error("overdue in its turn")
	}
	if now++; !a.OverdueBetween() || a.Overdue() {
		t.Errorf("after its turn: overdue between requests %t, in a request %t", a.OverdueBetween(), a.Overdue())
	}
	if g.long.Load() {
		t.Error("the turn is taken for a long one")
	}
	a.Leave()
	g.onLook()
	<-entered[1]
	b.Leave()
	g.Close()
	c := g.Place(key(1, 1))
	c.Enter()
	if c.OverdueBetween() {
		t.Error("overdue in an open gate")
	}
	if now += turnTime + 1; c.OverdueBetween() {
		t.Error("overdue after a turn in an open gate")
	}
}

// Few requests of a group are in progress while others of the group have not
// begun, and another group has its turns all the same.
func TestEnterAgain(t *testing.T) {
	g := closedGate(t, 1)
	const clients = 4 * mostBegun
	var mu sync.Mutex  // guards the following: at the end the Gate is open
	var order []string // of turns
	var begun, most int
	var wg sync.WaitGroup
	var waiting int
	add := func(name string, p *Place, turns int) {
		wg.Go(func() {
			for i := range turns {
				if i == 0 {
					p.Enter()
				} else {
					p.EnterAgain()
				}
				mu.Lock()
				if i == 0 {
					begun++
				}
				most = max(most, begun)
				if i == turns-1 {
					begun--
				}
				order = append(order, name)
				mu.Unlock()
				p.Leave()
			}
		})
		waiting++
		g.awaitQueue(waiting)
	}
	for i := range clients {
		add("long", g.Place(key(1, uint64(i))), 3)
	}
	add("other", g.Place(key(2, 1)), 1)
	g.onLook()
	wg.Wait()
	if most > 2*mostBegun {
		t.Errorf("%d requests were in progress at a time, want %d at most", most, 2*mostBegun)
	}
	if i := slices.Index(order, "other"); i > 1 {
		t.Errorf("the other group had turn %d", i)
	}
	g.check(t, 0, 0)
}

// One that EnterFirst comes before all that wait.
func TestEnterFirst(t *testing.T) {
	g := closedGate(t, 1)
	a, b := g.Place(key(1, 1)), g.Place(key(2, 1))
	g.enter(a)
	entered := make(chan struct{})
	go func() {
		defer close(entered)
		b.EnterFirst()
	}()
	g.awaitQueue(2)
	g.onLook()
	<-entered
	g.check(t, 1, 1)
	b.Leave()
	g.check(t, 1, 0)
}
