// Package gate lets the clients take turns while pmcd has more to do than it can.
//
// Go's scheduler gives each goroutine the same share of the CPUs, so a client with 200
// connections would get 200 shares. And it looks for input only when it has nothing to run,
// so clients that ask again at once keep others out. Therefore a session enters a [Gate]
// when it has input, and leaves it when it has answered, and before it waits: for the rest
// of a request, for an agent, for a slow client. While the Gate is open that costs two
// atomic operations.
//
// Each [tick], and after some turns, the Gate finds out whether the scheduler has looked
// for input since. If it has not, the Gate closes, so that it does: sessions wait in a
// fairqueue.Queue, in which the groups and members of clients take turns. Then the Gate
// lets in as many as entered in the last tick. If more wait, it stays closed, and the next
// ones are let in when others have left, and when the scheduler has looked for input again.
//
// The place of a session that computes for longer than [sliceTime] is given to the next. The
// session should notice and wait for another one (see [Place.Overdue]). If it does not,
// because a system call blocks or because the code of a plugin knows nothing of gates, it
// goes on without one.
//
// A session that waits in the middle of a request has memory for what it has done so far.
// If there are [mostBegun] of these, the next come before all others of their group, so
// that none of their group begins.
package gate

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

const (
	// sliceTime is how long a session may compute while others wait: a few times what most
	// requests take. A session that does not call Overdue has up to twice as long.
	sliceTime = 2 * time.Millisecond

	// turnTime is how long a session may go on with requests that have arrived together
	// while others wait: many times what it costs to give a place to another.
	turnTime = 250 * time.Microsecond

	// mostBegun is how many sessions may wait in the middle of a request and have turns like
	// the others.
	mostBegun = 4
)

// A Gate is what all sessions use. Use [New] to make one.
type Gate struct {
	entered atomic.Uint64 // how many sessions have entered it
	every   atomic.Uint64 // after how many turns it looks; changed with mu held
	closed  atomic.Bool   // paused, or some wait; changed with mu held
	ticking atomic.Bool   // changed with mu held
	slice   atomic.Uint32 // counts the slices while some wait; changed with mu held

	mu     sync.Mutex // guards the following, and not the fast path
	queue  fairqueue.Queue[*Place]
	begun  int           // of those in queue: in the middle of a request
	inside []*Place      // were let in while the Gate was closed; some may have left since
	places int           // how many compute at a time; 0 is one for each CPU
	timer  *time.Timer   // nil before the first tick, as are the next two
	look   *os.File      // a pipe. The scheduler has looked for input when it could be read
	polled chan struct{} // closed when the goroutine that reads it has ended
	asked  bool          // look was written to, and the goroutine has not read it yet
	paused bool          // none is let in before that
	before uint64        // entered at the last tick
	served int           // entered in a tick, lately; 0 if turns are long
	long   atomic.Bool   // a session has computed for a slice since the last tick
	ticks  int           // since the last slice
	ended  bool
	load   load
	clock  func() time.Duration
	last   time.Duration // the last tick, as of clock
}

// New returns a Gate that is open.
func New() *Gate {
	g := new(Gate)
	g.every.Store(few)
	begin := time.Now()
	g.clock = func() time.Duration { return time.Since(begin) }
	return g
}

// Close opens the Gate for ever.
func (g *Gate) Close() {
	g.mu.Lock()
	g.ended = true
	g.open()
	if g.timer == nil {
		g.mu.Unlock()
		return
	}
	g.timer.Stop()
	g.look.Close()
	g.mu.Unlock()
	<-g.polled
}

// Closed reports whether Enter has to wait, at the moment.
func (g *Gate) Closed() bool { return g.closed.Load() }

// admit lets in the next sessions, unless the Gate is paused, until there are most of them
// inside, or as many as compute at a time if that is more. The Gate opens if none is left.
// The caller holds mu.
func (g *Gate) admit(most int) {
	if g.paused || !g.closed.Load() {
		return
	}
	n := 0
	for _, p := range g.inside {
		if p.state.Load() == inside {
			g.inside[n] = p
			n++
		}
	}
	clear(g.inside[n:])
	g.inside = g.inside[:n]
	if g.places > 0 {
		most = max(most, g.places)
	} else {
		most = max(most, runtime.GOMAXPROCS(0))
	}
	for ; n < most && g.queue.Len() > 0; n++ {
		p := g.pop()
		g.entered.Add(1)
		p.since.Store(g.slice.Load())
		p.start.Store(int64(g.clock()))
		p.state.Store(inside)
		g.load.count(p.key.Group)
		g.inside = append(g.inside, p)
		p.wake <- struct{}{}
	}
	if g.queue.Len() == 0 {
		g.closed.Store(false)
	}
}

// pop takes the next one out of the queue. The caller holds mu.
func (g *Gate) pop() *Place {
	p := g.queue.Pop().Value
	if p.begun {
		p.begun = false
		g.begun--
	}
	return p
}

// open opens the Gate, for all that wait. The caller holds mu.
func (g *Gate) open() {
	g.paused = false
	g.closed.Store(false)
	for g.queue.Len() > 0 {
		p := g.pop()
		p.start.Store(0)
		p.state.Store(free)
		p.wake <- struct{}{}
	}
}
