package gate

import (
	"os"
	"time"
)

// How a Gate finds out whether the scheduler looks for input: it writes a byte to a pipe,
// and a goroutine reads the byte when the scheduler has looked.

const (
	// tick is how often a Gate finds out whether the scheduler looks for input.
	tick = time.Millisecond

	// few and many limit after how many turns the Gate looks, in addition to the ticks, while
	// it is open. The number of turns is few at first and whenever a session waits at the end
	// of a look. Each look at whose end no session waits doubles it, up to many. With 8
	// turns the p99 of 64 clients in a closed loop on 2 CPUs is a third of what it is with the
	// ticks alone, but for a client that is alone a request takes 3 us more CPU time.
	few  = 8
	many = 512
)

// onMany is called when many sessions have entered.
func (g *Gate) onMany() {
	if g.closed.Load() || !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	if g.startTicks() {
		g.find()
	}
}

// startTicks has the Gate find out whether the scheduler looks for input. It reports false
// if that is not possible: at the end, or without descriptors for the pipe. Then the Gate
// stays open. The caller holds mu.
func (g *Gate) startTicks() bool {
	switch {
	case g.ended:
		return false
	case g.ticking.Load():
		return true
	case g.timer != nil:
		g.timer.Reset(tick)
	default:
		r, w, err := os.Pipe()
		if err != nil {
			g.every.Store(many)
			return false
		}
		g.look, g.polled = w, make(chan struct{})
		go g.poll(r)
		g.timer = time.AfterFunc(tick, g.onTick)
	}
	g.ticking.Store(true)
	g.last = g.clock()
	return true
}

// find finds out whether the scheduler has looked for input since the last call. If it has
// not, the Gate closes until it has. The caller holds mu.
func (g *Gate) find() {
	if g.asked || g.queue.Len() > 0 {
		g.paused = true
		g.closed.Store(true)
	}
	if !g.asked {
		g.asked = true
		g.look.Write([]byte{0})
	}
}

// lookNow closes the Gate until the scheduler has looked for input. It reports false if that
// is not possible.
func (g *Gate) lookNow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.startTicks() {
		return false
	}
	g.paused = true
	g.closed.Store(true)
	g.find()
	return true
}

// poll notes when the scheduler has looked for input, until the other end of looked is
// closed.
func (g *Gate) poll(looked *os.File) {
	defer close(g.polled)
	defer looked.Close()
	var b [1]byte
	for {
		if _, err := looked.Read(b[:]); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.ended = true
			g.open()
			return
		}
		g.onLook()
	}
}

func (g *Gate) onLook() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Len() > 0 {
		g.every.Store(few)
	} else if n := g.every.Load(); n < many {
		g.every.Store(2 * n)
	}
	g.asked, g.paused = false, false
	g.admit(g.served)
}

func (g *Gate) onTick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended && g.step() {
		g.timer.Reset(tick)
	}
}

// catchUp does what a tick does if one is late: the scheduler looks at timers only between
// goroutines, and those that let each other in follow one another. The caller holds mu.
func (g *Gate) catchUp() {
	if g.ticking.Load() && !g.ended && g.clock()-g.last >= 2*tick {
		g.step()
	}
}

// step is what happens at a tick. It reports whether there is another one. The caller holds
// mu.
func (g *Gate) step() bool {
	n := g.entered.Load()
	if !g.closed.Load() && !g.asked && n == g.before {
		g.ticking.Store(false)
		return false
	}
	since, now := g.last, g.clock() // more than a tick, when the scheduler looks at timers late
	g.last = now
	g.served = int(n-g.before) * int(tick) / int(max(tick, now-since))
	g.before = n
	if g.long.Swap(false) { // many that are let in would compute for many slices
		g.served = 0
	}
	if g.queue.Len() > 0 {
		g.load.closed += now - since
		if g.ticks++; g.ticks >= int(sliceTime/tick) {
			g.ticks = 0
			g.endSlice()
		}
	}
	g.find()
	return true
}

// endSlice takes the places that sessions have had for a whole slice. The caller holds mu.
func (g *Gate) endSlice() {
	now := g.slice.Add(1)
	for _, p := range g.inside {
		if now-p.since.Load() > 1 {
			p.state.CompareAndSwap(inside, taken)
		}
	}
	g.admit(0)
}
