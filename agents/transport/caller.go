package transport

import (
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
)

// A Session is somebody who asks agents, one turn after the other. Its methods
// are called one at a time, but on different goroutines.
type Session interface {
	// Await waits for something to do. It reports false if nothing will come.
	Await() bool

	// Turn does it. The Calls that it makes of agents may name c.
	Turn(c *Caller)

	// End is called last.
	End()
}

// A Caller waits for agents in this process at no other cost than theirs. It
// is a coroutine: while it has one of them called, it rests, and the Agent has
// the goroutine on which the Session was. If the Agent does not return in time
// it is left alone with that goroutine, and another takes its place.
type Caller struct {
	pool    *Callers
	session Session
	next    func() (*errand, bool) // has the Caller go on: to its next errand, or nil at the end of a turn
	stop    func()
	yield   func(*errand) bool // lets who has called next go on
}

// Callers serve Sessions. They are shared, so that one which awaits something
// costs one small stack. The zero value is ready to use.
type Callers struct {
	mu     sync.Mutex // guards the following
	idle   []*Caller
	closed bool
}

// maxIdle is how many Callers are kept for the next turns.
const maxIdle = 64

// Serve serves s on the goroutine of its caller. It returns at the end of s, or
// earlier if another goroutine serves s from there on.
func (p *Callers) Serve(s Session) {
	for s.Await() {
		c := p.take()
		c.session = s
		if !c.run() {
			return
		}
		p.giveBack(c)
	}
	s.End()
}

// run has c go on to the end of its turn. It reports false if an Agent took the
// goroutine longer than c waited: then another runs c.
func (c *Caller) run() bool {
	for {
		e, _ := c.next()
		if e == nil {
			return true
		}
		if !e.worker.serve(e) {
			return false
		}
	}
}

// goOn is for the goroutine that takes the place of one in run.
func (c *Caller) goOn() {
	if c.run() {
		s := c.session
		c.pool.giveBack(c)
		c.pool.Serve(s)
	}
}

func (p *Callers) take() *Caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		return c
	}
	c := &Caller{pool: p}
	c.next, c.stop = iter.Pull(c.turns)
	return c
}

func (p *Callers) giveBack(c *Caller) {
	c.session = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == maxIdle {
		c.stop()
		return
	}
	p.idle = append(p.idle, c)
}

// Idle is how many Callers, each a coroutine, are kept for later turns.
func (p *Callers) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// turns is the coroutine.
func (c *Caller) turns(yield func(*errand) bool) {
	defer func() {
		if v := recover(); v != nil { // it goes on, with the stack of who has called next
			panic(fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	c.yield = yield
	for {
		c.session.Turn(c)
		if !yield(nil) {
			return
		}
	}
}

// Close ends what is kept for later turns.
func (p *Callers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.stop()
	}
	p.idle = nil
}
