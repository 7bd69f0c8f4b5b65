// Package slots has a fair semaphore, by which the clients share the CPUs.
//
// Go's scheduler gives each goroutine the same share, so a client with 200 connections
// would get 200 shares. Therefore a request takes a slot of a [Pool] when it has arrived,
// and gives it back at its end and before it waits. There are GOMAXPROCS slots, and
// two at least: see [Pool.Resize]. Requests that wait for a slot are in a fairqueue.Queue. While they wait
// they do not compute, so that Go's scheduler polls the network and the requests of other
// clients join the queue.
//
// A request that waits again, after it has begun, is served before those of its group
// that have not: it has memory for what it has done so far.
//
// A slot that is held for longer than [longTime] while others wait is no longer counted:
// its holder may be blocked in a system call. It may also compute, or have no CPU because
// the host is busy.
package slots

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// longTime is how long a slot is counted while others wait: many times what most requests
// take.
const longTime = 10 * time.Millisecond

// A Pool has the slots. Use [New] to make one. All goroutines may use it.
type Pool struct {
	busy atomic.Bool // some wait; changed with mu held

	mu      sync.Mutex // guards the following
	queue   fairqueue.Queue[*Slot]
	size    int
	counted []*Slot // that are held, but those that are for long
	timer   *time.Timer
	ticks   uint // of timer
	closed  bool
	load    load
}

// New returns a Pool.
func New() *Pool { return &Pool{size: size()} }

// size returns the number of slots.
func size() int { return max(2, runtime.GOMAXPROCS(0)) }

// Resize makes the number of slots follow GOMAXPROCS, and returns it. Slots that are held stay so.
func (p *Pool) Resize() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size()
	p.serve()
	return p.size
}

// A Slot is the slot of one client, which it has or not. One goroutine at a time uses it.
type Slot struct {
	pool  *Pool
	key   *fairqueue.Key
	holds bool

	// These are guarded by the mutex of the Pool.
	at    int  // index in counted; -1 if it is not counted
	since uint // ticks when it was taken
	begun bool // its request has begun
	item  fairqueue.Item[*Slot]
	wake  chan struct{} // has room for one; receives when the slot is given
}

// Slot returns a Slot for the requests of key, which it does not have yet.
func (p *Pool) Slot(key *fairqueue.Key) *Slot {
	s := &Slot{pool: p, key: key, at: -1}
	s.item.Value = s
	return s
}

// Take takes a slot for a request that begins, unless s has one. It waits until one is free.
func (s *Slot) Take() { s.take(false) }

// TakeAgain is Take for a request that has begun and has waited for something.
func (s *Slot) TakeAgain() { s.take(true) }

func (s *Slot) take(begun bool) {
	if s.holds {
		return
	}
	s.holds = true
	if s.pool.enqueue(s, begun) {
		<-s.wake
	}
}

// enqueue puts s into the queue, unless a slot is free.
func (p *Pool) enqueue(s *Slot, begun bool) (wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.counted) < p.size && p.queue.Len() == 0 {
		p.give(s)
		return false
	}
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	if s.begun = begun; begun {
		p.queue.PushFront(&s.item, s.key)
	} else {
		p.queue.Push(&s.item, s.key)
	}
	if !p.busy.Load() {
		p.busy.Store(true)
		if p.timer == nil {
			p.timer = time.AfterFunc(longTime/2, p.tick)
		} else {
			p.timer.Reset(longTime / 2)
		}
	}
	return true
}

// give gives s a slot. The caller holds mu.
func (p *Pool) give(s *Slot) {
	s.at, s.since = len(p.counted), p.ticks
	p.counted = append(p.counted, s)
}

// forget no longer counts s. The caller holds mu.
func (p *Pool) forget(s *Slot) {
	last := len(p.counted) - 1
	p.counted[s.at] = p.counted[last]
	p.counted[s.at].at = s.at
	p.counted[last] = nil
	p.counted = p.counted[:last]
	s.at = -1
}

// Release gives the slot back. It reports whether s had one.
func (s *Slot) Release() bool {
	if !s.holds {
		return false
	}
	s.holds = false
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.at >= 0 {
		p.forget(s)
		p.serve()
	}
	return true
}

// Wait calls f, which may wait. If s is held, others may have it meanwhile.
func (s *Slot) Wait(f func()) {
	held := s.Release()
	f()
	if held {
		s.TakeAgain()
	}
}

// serve gives the free slots to those that wait. The caller holds mu.
func (p *Pool) serve() {
	for p.queue.Len() > 0 && (len(p.counted) < p.size || p.closed) {
		s := p.queue.Pop().Value
		p.give(s)
		if !s.begun {
			p.load.count(s.key.Group)
		}
		s.wake <- struct{}{}
	}
	if p.queue.Len() == 0 {
		p.busy.Store(false)
	}
}

// tick looks for slots that are held for long while others wait.
func (p *Pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.busy.Load() {
		return
	}
	p.ticks++
	p.load.time += longTime / 2
	for i := len(p.counted) - 1; i >= 0; i-- { // forget moves the last one
		if s := p.counted[i]; p.ticks-s.since > 2 {
			p.forget(s)
		}
	}
	p.serve()
	if p.busy.Load() {
		p.timer.Reset(longTime / 2)
	}
}

// Busy reports whether some wait for a slot.
func (p *Pool) Busy() bool { return p.busy.Load() }

// InUse returns how many slots are held and counted.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.counted)
}

// Close gives slots to all that wait, and to all others that ask for one.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.serve()
}
