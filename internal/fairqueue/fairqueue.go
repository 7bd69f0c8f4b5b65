// Package fairqueue is a queue of waiters in which the clients take turns.
//
// Each waiter has a [Key]: its group, and its member in the group. A [Queue] serves
// the groups round robin, and in a group the members round robin. The waiters of a
// member are served in the order in which they have come. So a client whose group has
// one waiter waits for one waiter of each other group, however many those have.
//
// A group that comes to the Queue is served after the groups that are there, but before
// the one that was served last. The same holds for a member in its group. So a client
// that asks again as soon as it has its reply is served every second time beside one
// with many waiters.
//
// A connection of a client asks again only when it has its reply, so it has one waiter
// in a Queue at a time. That makes the order in a member round robin, too.
package fairqueue

import (
	"cmp"
	"iter"
	"net/netip"
)

// A Key identifies the owner of a waiter.
type Key struct {
	Group  Group
	Member uint64 // in the group
}

// A Group is a set of clients that is served as one. Its fields are the caller's to
// choose: two Groups are the same if both fields are.
type Group struct {
	Addr netip.Addr
	ID   uint64
}

// An Item is an element of a Queue: one waiter. The caller provides the memory, often
// as a field of the waiter, so that a Queue allocates little.
type Item[T any] struct {
	Value T

	node       *node[T] // whose waiter it is; nil if the Item is in no Queue
	prev, next *Item[T]
}

// A Queue is a queue of waiters. The zero value is empty and ready to use. A Queue is
// used by one goroutine at a time.
//
// Waiters without a Key are the daemon's own. They are served before all others, in
// the order in which they have come.
type Queue[T any] struct {
	root    node[T] // has the daemon's own waiters; its children are the groups
	groups  map[Group]*node[T]
	members map[Key]*node[T]
	n       int
	most    int // members or groups at a time, since the maps were made

	free    *node[T] // for reuse, linked by next
	numFree int
}

// A node is a group or a member. It is in a Queue while it has waiters or children.
type node[T any] struct {
	key         Key      // of a member; a group uses only key.Group
	parent      *node[T] // a member's group, or the root; nil for the root
	first, last *Item[T] // its waiters; those of a group have come by PushFront
	inRow       int      // of a group: how many of its own waiters were served one after the other
	cursor      *node[T] // the child that is served next; nil if there is none
	served      *node[T] // the child that was served last; nil if it has had no waiters since
	prev, next  *node[T] // a ring of the children of parent
}

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.n }

// Push adds a waiter, which must not be in a Queue. key is nil for the daemon's own.
func (q *Queue[T]) Push(it *Item[T], key *Key) {
	owner := &q.root
	if key != nil {
		owner = q.member(key)
	}
	q.push(it, owner)
}

// maxInRow is how many waiters of PushFront are served before another one of their group.
const maxInRow = 8

// PushFront adds a waiter that is served before the others of its group, but after those
// that PushFront has added before. After [maxInRow] of these, one of the others is served.
// key is not nil.
func (q *Queue[T]) PushFront(it *Item[T], key *Key) { q.push(it, q.group(key.Group)) }

func (q *Queue[T]) push(it *Item[T], owner *node[T]) {
	it.node, it.prev, it.next = owner, owner.last, nil
	if owner.last == nil {
		owner.first = it
	} else {
		owner.last.next = it
	}
	owner.last = it
	q.n++
}

func (q *Queue[T]) member(key *Key) *node[T] {
	m := q.members[*key]
	if m == nil {
		if q.members == nil {
			q.members = make(map[Key]*node[T])
		}
		m = q.add(*key, q.group(key.Group))
		q.members[*key] = m
		q.most = max(q.most, len(q.members))
	}
	return m
}

func (q *Queue[T]) group(id Group) *node[T] {
	g := q.groups[id]
	if g == nil {
		if q.groups == nil {
			q.groups = make(map[Group]*node[T])
		}
		g = q.add(Key{Group: id}, &q.root)
		q.groups[id] = g
		q.most = max(q.most, len(q.groups))
	}
	return g
}

// add adds a child to p. It is served after all others but the one that was served last.
func (q *Queue[T]) add(key Key, p *node[T]) *node[T] {
	n := q.free
	if n == nil {
		n = new(node[T])
	} else {
		q.free, n.next = n.next, nil
		q.numFree--
	}
	n.key, n.parent = key, p
	if p.cursor == nil {
		p.cursor, n.prev, n.next = n, n, n
		return n
	}
	n.next = cmp.Or(p.served, p.cursor)
	n.prev = n.next.prev
	n.prev.next, n.next.prev = n, n
	if p.cursor == p.served {
		p.cursor = n
	}
	return n
}

// Peek returns the waiter that is served next; nil if there is none.
func (q *Queue[T]) Peek() *Item[T] {
	if q.root.first != nil {
		return q.root.first
	}
	return q.root.cursor.peek()
}

// PeekGroup returns the waiter of a group that is served next; nil if there is none.
func (q *Queue[T]) PeekGroup(id Group) *Item[T] { return q.groups[id].peek() }

// peek returns the waiter of a group that is served next; nil if there is none.
func (g *node[T]) peek() *Item[T] {
	switch {
	case g == nil:
		return nil
	case g.cursor == nil, g.first != nil && g.inRow < maxInRow:
		return g.first
	}
	return g.cursor.first
}

// Pop removes and returns the waiter that is served next; nil if there is none.
func (q *Queue[T]) Pop() *Item[T] {
	it := q.Peek()
	if it != nil {
		q.Take(it)
	}
	return it
}

// Take removes a waiter that Peek or PeekGroup has returned: it is served.
func (q *Queue[T]) Take(it *Item[T]) {
	if n := it.node; n.parent == &q.root {
		n.inRow++
	} else if n.parent != nil {
		n.parent.inRow = 0
	}
	for n := it.node; n.parent != nil; n = n.parent {
		if n.parent.cursor == n { // not if PeekGroup has returned it
			n.parent.served, n.parent.cursor = n, n.next
		}
	}
	q.Remove(it)
}

// Remove removes a waiter that is in q. It reports false if the waiter is not.
func (q *Queue[T]) Remove(it *Item[T]) bool {
	n := it.node
	if n == nil {
		return false
	}
	if it.prev == nil {
		n.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		n.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.node, it.prev, it.next = nil, nil, nil
	q.n--
	for n.parent != nil && n.first == nil && n.cursor == nil {
		p := n.parent
		q.forget(n)
		n = p
	}
	if len(q.groups) == 0 && q.most > maxFree { // a map does not shrink
		q.members, q.groups, q.most = nil, nil, 0
	}
	return true
}

// maxFree is how many nodes a Queue keeps for reuse.
const maxFree = 64

// forget removes a node that has neither waiters nor children.
func (q *Queue[T]) forget(n *node[T]) {
	p := n.parent
	if p == &q.root {
		delete(q.groups, n.key.Group)
	} else {
		delete(q.members, n.key)
	}
	n.prev.next, n.next.prev = n.next, n.prev
	if p.cursor == n {
		p.cursor = n.next
	}
	if p.served == n {
		p.served = nil
	}
	if n.next == n {
		p.cursor = nil
	}
	*n = node[T]{}
	if q.numFree < maxFree {
		q.numFree++
		n.next, q.free = q.free, n
	}
}

// All returns all waiters, those of each group together.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { q.root.each(yield) }
}

// each calls yield for the waiters of n and of its children until that returns false.
func (n *node[T]) each(yield func(T) bool) bool {
	for it := n.first; it != nil; it = it.next {
		if !yield(it.Value) {
			return false
		}
	}
	for c := n.cursor; c != nil; {
		if !c.each(yield) {
			return false
		}
		if c = c.next; c == n.cursor {
			break
		}
	}
	return true
}
