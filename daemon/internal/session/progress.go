package session

import (
	"sync"
	"sync/atomic"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// DefaultMaxInProgress is how many sessions may have a request in progress: more than a pmproxy
// has connections. Most of them wait for agents, and each has some 40 KB for what it has done
// so far.
const DefaultMaxInProgress = 1024

// A progress limits how many sessions have a request in progress. The next ones wait before
// they read their requests. So thousands of clients that wait for an agent hold no memory.
//
// If the limit is reached, the groups of clients have the same share of it. A group with less
// than its share does not wait, so no group keeps others out.
type progress struct {
	limit   int64
	used    atomic.Int64 // by sessions with a request
	active  atomic.Int64 // groups with such sessions
	waiting atomic.Int64 // sessions
	ended   atomic.Bool

	mu     sync.Mutex // guards the following, and fields of groups
	groups map[fairqueue.Group]*progressGroup
	ring   []*progressGroup // with waiters; the first is served next
}

// A progressGroup is a group of clients.
type progressGroup struct {
	used    atomic.Int64
	waiting atomic.Int64

	// These are guarded by progress.mu.
	sessions int
	queue    fairqueue.Queue[*slotWaiter]
}

// A requestSlot is the part of a session in a progress. The session's goroutine uses it.
type requestSlot struct {
	of    *progress
	group *progressGroup
	key   *fairqueue.Key
	held  bool
}

// A slotWaiter is a session that waits until it may begin.
type slotWaiter struct {
	item  fairqueue.Item[*slotWaiter]
	begun chan struct{} // is closed then
}

// open returns the requestSlot of a new session. It must be closed.
func (p *progress) open(key *fairqueue.Key) requestSlot {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[key.Group]
	if g == nil {
		if p.groups == nil {
			p.groups = make(map[fairqueue.Group]*progressGroup)
		}
		g = new(progressGroup)
		p.groups[key.Group] = g
	}
	g.sessions++
	return requestSlot{of: p, group: g, key: key}
}

// close ends s.
func (s *requestSlot) close() {
	s.end()
	p := s.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.group.sessions--; s.group.sessions == 0 {
		delete(p.groups, s.key.Group)
	}
}

// tryBegin reports whether the session may have a request in progress now.
func (s *requestSlot) tryBegin() bool {
	if s.held {
		return true
	}
	s.held = s.group.waiting.Load() == 0 && s.of.take(s.group)
	return s.held
}

// begin is tryBegin that waits.
func (s *requestSlot) begin() {
	if s.tryBegin() {
		return
	}
	p, g := s.of, s.group
	w := &slotWaiter{begun: make(chan struct{})}
	w.item.Value = w
	p.mu.Lock()
	if g.queue.Len() == 0 {
		p.ring = append(p.ring, g)
	}
	g.queue.Push(&w.item, s.key)
	g.waiting.Add(1)
	p.waiting.Add(1) // before it looks: end looks after it has changed used
	p.serve(g)
	p.mu.Unlock()
	<-w.begun
	s.held = true
}

// end ends the request.
func (s *requestSlot) end() {
	if !s.held {
		return
	}
	s.held = false
	p := s.of
	p.give(s.group)
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serve(s.group)
	}
}

// take counts a request of g, if it may begin.
func (p *progress) take(g *progressGroup) bool {
	own := g.used.Add(1)
	if own == 1 {
		p.active.Add(1)
	}
	if p.used.Add(1) <= p.limit || own <= max(1, p.limit/(p.active.Load()+1)) || p.ended.Load() {
		return true
	}
	p.give(g)
	return false
}

func (p *progress) give(g *progressGroup) {
	p.used.Add(-1)
	if g.used.Add(-1) == 0 {
		p.active.Add(-1)
	}
}

// serve lets those begin that may: of the group first, of which a request has ended, and then
// of all groups in turn. The caller holds mu.
func (p *progress) serve(first *progressGroup) {
	for first.queue.Len() > 0 && p.take(first) {
		p.pop(first)
	}
	for len(p.ring) > 0 && (p.used.Load() < p.limit || p.ended.Load()) {
		g := p.ring[0]
		p.ring = append(p.ring[1:], g)
		if !p.take(g) { // another session has begun meanwhile
			return
		}
		p.pop(g)
	}
}

// pop lets the next one of g begin, for which take has returned true. The caller holds mu.
func (p *progress) pop(g *progressGroup) {
	w := g.queue.Pop().Value
	if g.queue.Len() == 0 {
		for i, other := range p.ring {
			if other == g {
				p.ring = append(p.ring[:i], p.ring[i+1:]...)
				break
			}
		}
	}
	g.waiting.Add(-1)
	p.waiting.Add(-1)
	close(w.begun)
}

// stop lets all begin, from now on.
func (p *progress) stop() {
	p.ended.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ring) > 0 {
		p.serve(p.ring[0])
	}
}
