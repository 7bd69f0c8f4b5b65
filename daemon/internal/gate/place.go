package gate

import (
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// A Place is how one session uses a Gate. Use [Gate.Place] to make one.
//
// One goroutine at a time calls Enter. Any goroutine may call the other methods.
type Place struct {
	gate  *Gate
	key   *fairqueue.Key
	state atomic.Int32
	since atomic.Uint32 // the slice in which it was let in
	start atomic.Int64  // the time at which it was let in, as of clock; if it is free that of the first call of Overdue, or 0
	begun bool          // it waits in the middle of a request; guarded by the mutex of the Gate
	item  fairqueue.Item[*Place]
	wake  chan struct{} // is sent to when it is let in; has room for one
}

// Values of Place.state.
const (
	outside = iota
	free    // entered the Gate while it was open
	inside  // was let in while the Gate was closed
	taken   // was let in, and its place was given to another
)

// Place returns a Place outside, for the turns of key.
func (g *Gate) Place(key *fairqueue.Key) *Place {
	p := &Place{gate: g, key: key}
	p.item.Value = p
	return p
}

// Fork returns another Place outside, for the turns of the same client.
func (p *Place) Fork() *Place { return p.gate.Place(p.key) }

// Enter enters the Gate, unless p has. It waits while the Gate is closed and others have
// their turns.
func (p *Place) Enter() { p.enter(p.key, false) }

// EnterAgain is Enter in the middle of a request.
func (p *Place) EnterAgain() { p.enter(p.key, true) }

// EnterFirst is Enter that comes before all others in the queue. It is for a session that
// has what others wait for, of which there must be few.
func (p *Place) EnterFirst() { p.enter(nil, false) }

// enter enters the Gate. In the queue p has the turns of key.
func (p *Place) enter(key *fairqueue.Key, begun bool) {
	if s := p.state.Load(); s == free || s == inside {
		return
	}
	g := p.gate
	if !g.closed.Load() {
		p.start.Store(0)
		p.state.Store(free)
		if n := g.entered.Add(1); n%g.every.Load() == 0 {
			g.onMany()
		}
		return
	}
	if g.enqueue(p, key, begun) {
		<-p.wake
	}
}

// enqueue puts p into the queue. It reports false if p is inside because the Gate is open.
func (g *Gate) enqueue(p *Place, key *fairqueue.Key, begun bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed.Load() {
		g.entered.Add(1)
		p.start.Store(0)
		p.state.Store(free)
		return false
	}
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	if p.begun = begun; begun {
		g.begun++
	}
	if g.begun > mostBegun && begun {
		g.queue.PushFront(&p.item, key)
	} else {
		g.queue.Push(&p.item, key)
	}
	g.admit(0)
	return true
}

// Leave leaves the Gate, unless p has.
func (p *Place) Leave() {
	if p.state.Swap(outside) != inside {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.catchUp()
	g.admit(0)
}

// Overdue reports whether others wait and p has computed for a slice, or has no place among
// those that compute: its place was taken, or p has entered while the Gate was open. Then it
// should Leave, and Enter before it goes on.
//
// While the Gate is open, and p has computed for a slice since it entered, the Gate closes
// until the scheduler has looked for input. The ticks cannot be relied on for that: there may
// be none yet, and they are late while all threads compute.
func (p *Place) Overdue() bool { return p.overdue(sliceTime) }

// OverdueBetween is Overdue between two requests, where a session has less time if others
// wait.
func (p *Place) OverdueBetween() bool { return p.overdue(turnTime) }

// overdue is Overdue for a session that may compute for limit if others wait.
func (p *Place) overdue(limit time.Duration) bool {
	if g := p.gate; !g.closed.Load() {
		if p.state.Load() != free {
			return false
		}
		now := g.clock()
		switch start := p.start.Load(); {
		case start == 0: // this is the first call
			p.start.Store(int64(now))
			return false
		case now-time.Duration(start) <= sliceTime || !g.lookNow():
			return false
		}
		g.long.Store(true)
	}
	switch p.state.Load() {
	case inside:
		// The ticks can be late: the scheduler looks at timers only between goroutines.
		took := p.gate.clock() - time.Duration(p.start.Load())
		if took > sliceTime {
			p.gate.long.Store(true)
		}
		return took > limit
	case free, taken:
		return true
	}
	return false
}
