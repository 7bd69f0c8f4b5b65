package clients

import (
	"cmp"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
)

// A List is the clients that there are. The zero value has none.
type List struct {
	mu    sync.Mutex // guards the following: connections begin and end on several goroutines
	byNum map[int32]*Client
	bySeq []*Client // in ascending order: the oldest first, until seq has wrapped
	last  []*Client // what All has returned; nil if bySeq has changed since
	free  []int32   // numbers below next that no client has, in ascending order
	next  int32
	seq   uint32
}

// Add adds c, and gives it the lowest free number and the next sequence number.
func (l *List) Add(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNum == nil {
		l.byNum = make(map[int32]*Client)
	}
	if len(l.free) > 0 {
		c.Num = l.free[0]
		l.free = slices.Delete(l.free, 0, 1)
	} else {
		c.Num = l.next
		l.next++
	}
	c.Seq = l.seq
	l.seq = (l.seq + 1) & 0x7fffffff
	l.byNum[c.Num] = c
	i, _ := l.search(c.Seq)
	l.bySeq = slices.Insert(l.bySeq, i, c)
	l.last = nil
}

// search returns the position of the first client in bySeq with that sequence number,
// or of the next one. The caller holds mu.
func (l *List) search(seq uint32) (int, bool) {
	return slices.BinarySearchFunc(l.bySeq, seq, func(c *Client, seq uint32) int { return cmp.Compare(c.Seq, seq) })
}

// Remove removes c and makes its number free. Agents have been notified of its end.
func (l *List) Remove(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byNum, c.Num)
	i, _ := l.search(c.Seq)
	for l.bySeq[i] != c {
		i++
	}
	l.bySeq = slices.Delete(l.bySeq, i, i+1)
	l.last = nil
	i, _ = slices.BinarySearch(l.free, c.Num)
	l.free = slices.Insert(l.free, i, c.Num)
}

// Client returns the client with a number, or nil.
func (l *List) Client(num int32) *Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byNum[num]
}

// Len returns how many clients are connected.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byNum)
}

// All returns all clients, by ascending sequence number. The caller must not change the
// list, which others may have got too.
func (l *List) All() []*Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = slices.Clone(l.bySeq)
	}
	return l.last
}

// Notify adds state changes to those that each client is notified of with its next fetch.
func (l *List) Notify(bits int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.byNum {
		c.Notices.Or(uint32(bits))
	}
}

// AgentConnected sends an agent the attributes of the clients that there are, if it wants
// them. Later clients find the connection in the routes.
func (l *List) AgentConnected(to *agentset.Conn) {
	for _, c := range l.All() {
		c.known.sendTo(to, c.Num, false)
	}
}
