package daemon

import (
	"container/heap"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/daemon/internal/diag"
)

// clients are the sessions there are, by number.
type clients struct {
	mu    sync.Mutex // guards the following
	byNum map[int32]*session
	free  numbers // numbers below next that nobody has
	next  int32
	seq   uint32
}

// add gives s the lowest free number and the next sequence number.
func (c *clients) add(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byNum == nil {
		c.byNum = make(map[int32]*session)
	}
	if len(c.free) > 0 {
		s.num = heap.Pop(&c.free).(int32)
	} else {
		s.num = c.next
		c.next++
	}
	s.seq = c.seq
	c.seq = (c.seq + 1) & 0x7fffffff
	c.byNum[s.num] = s
}

// remove gives the number of s back. Agents have been told.
func (c *clients) remove(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byNum, s.num)
	heap.Push(&c.free, s.num)
}

// session returns the session with a number, or nil.
func (c *clients) session(num int32) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNum[num]
}

func (c *clients) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byNum)
}

// sessions returns all sessions, the oldest first.
func (d *Daemon) sessions() []*session {
	c := &d.clients
	c.mu.Lock()
	list := make([]*session, 0, len(c.byNum))
	for _, s := range c.byNum {
		list = append(list, s)
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return int(a.seq) - int(b.seq) })
	return list
}

// notice has all clients told of state changes with their next fetch.
func (d *Daemon) notice(bits int32) {
	if bits != 0 {
		d.debug.Printf(diag.DebugState, "state change for all clients: %s", diag.StateChanges(bits))
	}
	d.clients.mu.Lock()
	defer d.clients.mu.Unlock()
	for _, s := range d.clients.byNum {
		s.notices.Or(uint32(bits))
	}
}

// endSessions aborts all connections. Sessions end by that.
func (d *Daemon) endSessions() {
	for _, s := range d.sessions() {
		s.conn.Abort()
	}
}

// numbers is a heap, for package container/heap.
type numbers []int32

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *numbers) Push(x any)        { *n = append(*n, x.(int32)) }
func (n *numbers) Pop() any {
	last := len(*n) - 1
	x := (*n)[last]
	*n = (*n)[:last]
	return x
}
