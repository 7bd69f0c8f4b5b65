package session

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/pdu"
)

// A registry is the sessions that there are.
type registry struct {
	mu    sync.Mutex // guards the following: connections begin and end on several goroutines
	byNum map[int32]*session
	bySeq []*session // in ascending order: the oldest first, until seq has wrapped
	last  []*session // what all has returned; nil if bySeq has changed since
	free  numbers    // numbers below next that no client has
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
	i, _ := r.search(s.id.seq)
	r.bySeq = slices.Insert(r.bySeq, i, s)
	r.last = nil
}

// search returns the position of the first session in bySeq with that sequence number,
// or of the next one. The caller holds mu.
func (r *registry) search(seq uint32) (int, bool) {
	return slices.BinarySearchFunc(r.bySeq, seq, func(s *session, seq uint32) int { return cmp.Compare(s.id.seq, seq) })
}

// remove makes the number of s free. Agents have been told.
func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byNum, s.id.num)
	i, _ := r.search(s.id.seq)
	for r.bySeq[i] != s {
		i++
	}
	r.bySeq = slices.Delete(r.bySeq, i, i+1)
	r.last = nil
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

// all returns all sessions, by ascending sequence number. The caller must not change the
// list, which others may have got too.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = slices.Clone(r.bySeq)
	}
	return r.last
}

// maxLookups is the number of sessions up to which each is looked up, with the lock
// held. To copy the list takes less time than to look up more.
const maxLookups = 64

// some returns the sessions whose sequence numbers p selects, by ascending sequence number.
// There may be others among them.
func (r *registry) some(p pdu.InDomProfile) []*session {
	if p.Exclude && len(p.Insts) <= maxLookups {
		return r.named(p.Insts)
	}
	return r.all()
}

// named returns the sessions with these sequence numbers.
func (r *registry) named(seqs []int32) []*session {
	seqs = slices.Clone(seqs)
	slices.Sort(seqs)
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*session
	for _, seq := range slices.Compact(seqs) {
		i, _ := r.search(uint32(seq))
		for ; i < len(r.bySeq) && r.bySeq[i].id.seq == uint32(seq); i++ {
			list = append(list, r.bySeq[i])
		}
	}
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
