package session

import (
	"container/heap"
	"slices"
	"sync"
)

// A registry is the sessions that there are, by number.
type registry struct {
	mu    sync.Mutex // guards the following: connections begin and end on several goroutines
	byNum map[int32]*session
	free  numbers // numbers below next that no client has
	next  int32
	seq   uint32
}

// add gives s the lowest free number and the next sequence number.
func (r *registry) add(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNum == nil {
		r.byNum = make(map[int32]*session)
	}
	if len(r.free) > 0 {
		s.id.num = heap.Pop(&r.free).(int32)
	} else {
		s.id.num = r.next
		r.next++
	}
	s.id.seq = r.seq
	r.seq = (r.seq + 1) & 0x7fffffff
	r.byNum[s.id.num] = s
}

// remove makes the number of s free. Agents have been told.
func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byNum, s.id.num)
	heap.Push(&r.free, s.id.num)
}

// byNumber returns the session with a number, or nil.
func (r *registry) byNumber(num int32) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byNum[num]
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byNum)
}

// all returns all sessions, the oldest first.
func (r *registry) all() []*session {
	r.mu.Lock()
	list := make([]*session, 0, len(r.byNum))
	for _, s := range r.byNum {
		list = append(list, s)
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return int(a.id.seq) - int(b.id.seq) })
	return list
}

// notify adds state changes to those that each client is told of with its next
// fetch.
func (r *registry) notify(bits int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.byNum {
		s.notices.Or(uint32(bits))
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
