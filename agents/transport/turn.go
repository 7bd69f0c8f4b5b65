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
	RunTurn(c *Turn)

	// End is called last.
	End()
}

// A Turn waits for agents in this process at no other cost than theirs. It
// is a coroutine: while it has one of them called, it rests, and the Agent has
// the goroutine on which the Session was. If the Agent does not return in time
// it is left alone with that goroutine, and another takes its place.
type Turn struct {
	pool    *TurnPool
	session Session
	next    func() (*queuedCall, bool) // has the Turn go on: to its next queuedCall, or nil at the end of a turn
	stop    func()
	yield   func(*queuedCall) bool // lets who has called next go on
}

// TurnPool serve Sessions. They are shared, so that one which awaits something
// costs one small stack. The zero value is ready to use.
type TurnPool struct {
	mu     sync.Mutex // guards the following
	idle   []*Turn
	closed bool
}

// maxIdle is how many TurnPool are kept for the next turns.
const maxIdle = 64

// Serve serves s on the goroutine of its caller. It returns at the end of s, or
// earlier if another goroutine serves s from there on.
func (p *TurnPool) Serve(s Session) {
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
func (c *Turn) run() bool {
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

// resume is for the goroutine that takes the place of one in run.
func (c *Turn) resume() {
	if c.run() {
		s := c.session
		c.pool.giveBack(c)
		c.pool.Serve(s)
	}
}

func (p *TurnPool) take() *Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		return c
	}
	c := &Turn{pool: p}
	c.next, c.stop = iter.Pull(c.turns)
	return c
}

func (p *TurnPool) giveBack(c *Turn) {
	c.session = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == maxIdle {
		c.stop()
		return
	}
	p.idle = append(p.idle, c)
}

// Idle is how many TurnPool, each a coroutine, are kept for later turns.
func (p *TurnPool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// turns is the coroutine.
func (c *Turn) turns(yield func(*queuedCall) bool) {
	defer func() {
		if v := recover(); v != nil { // it goes on, with the stack of who has called next
			panic(fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	c.yield = yield
	for {
		c.session.RunTurn(c)
		if !yield(nil) {
			return
		}
	}
}

// Close ends what is kept for later turns.
func (p *TurnPool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.stop()
	}
	p.idle = nil
}
