// Package fairqueue is a queue of waiters in which the clients take turns.
//
// Each waiter has a [Key]: its group, and its member in the group. A [Queue] serves
// the groups round robin, and in a group the members round robin. The waiters of a
// member are served in the order in which they have come. So a client whose group has
// one waiter waits for one waiter of each other group, however many those have.
//
// A group that comes to the Queue is served after the groups that are there, but before
// the one that was served last: that has just had its turn. The same holds for a member
// in its group. So a client that asks again as soon as it has its reply gets every
// second turn beside one with many waiters.
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

// A Group is what shares its turns. Its fields are the caller's to choose: two Groups
// are the same if both fields are.
type Group struct {
	Addr netip.Addr
	ID   uint64
}

// An Item is a place for one waiter in a Queue. The caller provides the memory, often
// as a field of the waiter, so that a Queue allocates little.
type Item[T any] struct {
	Value T

	member     *member[T] // nil if the Item is in no Queue
	prev, next *Item[T]
}

// A Queue is a queue of waiters. The zero value is empty and ready to use. A Queue is
// used by one goroutine at a time.
//
// Waiters without a Key are the daemon's own. They are served before all others, in
// the order in which they have come.
type Queue[T any] struct {
	own     member[T]
	turn    *group[T] // is served next; nil if there is none
	last    *group[T] // was served last; nil if it has had no waiters since
	groups  map[Group]*group[T]
	members map[Key]*member[T]
	n       int
	most    int // members or groups at a time, since the maps were made

	freeGroups  *group[T] // for reuse, linked by next
	freeMembers *member[T]
	free        int // in the two lists
}

// A group is in a Queue while it has waiters.
type group[T any] struct {
	id         Group
	front      member[T]  // the waiters of PushFront
	inRow      int        // of front that were served one after the other
	turn       *member[T] // is served next; nil if there is none but front
	last       *member[T] // was served last; nil if it has had no waiters since
	prev, next *group[T]  // a ring
}

// A member is in its group while it has waiters.
type member[T any] struct {
	key         Key
	group       *group[T] // nil for the daemon's own
	first, last *Item[T]
	prev, next  *member[T] // a ring
}

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.n }

// Push adds a waiter, which must not be in a Queue. key is nil for the daemon's own.
func (q *Queue[T]) Push(it *Item[T], key *Key) {
	m := &q.own
	if key != nil {
		m = q.member(key)
	}
	m.push(it)
	q.n++
}

// maxInRow is how many waiters of PushFront are served before another one of their group.
const maxInRow = 8

// PushFront adds a waiter that is served before the others of its group, but after those
// that PushFront has added before. After [maxInRow] of these, one of the others is served.
// key is not nil.
func (q *Queue[T]) PushFront(it *Item[T], key *Key) {
	q.group(key.Group).front.push(it)
	q.n++
}

// push adds a waiter to m.
func (m *member[T]) push(it *Item[T]) {
	it.member, it.prev, it.next = m, m.last, nil
	if m.last == nil {
		m.first = it
	} else {
		m.last.next = it
	}
	m.last = it
}

// member returns the member with a key. A new member is served after all others of its
// group but the one that was served last.
func (q *Queue[T]) member(key *Key) *member[T] {
	if m := q.members[*key]; m != nil {
		return m
	}
	g := q.group(key.Group)
	if q.members == nil {
		q.members = make(map[Key]*member[T])
	}
	m := q.newMember()
	m.key, m.group = *key, g
	q.members[*key] = m
	q.most = max(q.most, len(q.members))
	if g.turn == nil {
		g.turn, m.prev, m.next = m, m, m
	} else {
		m.next = cmp.Or(g.last, g.turn)
		m.prev = m.next.prev
		m.prev.next, m.next.prev = m, m
		if g.turn == g.last {
			g.turn = m
		}
	}
	return m
}

// group returns the group with an id. A new group is served after all others but the one
// that was served last.
func (q *Queue[T]) group(id Group) *group[T] {
	if g := q.groups[id]; g != nil {
		return g
	}
	if q.groups == nil {
		q.groups = make(map[Group]*group[T])
	}
	g := q.newGroup()
	g.id, g.front.group = id, g
	q.groups[id] = g
	q.most = max(q.most, len(q.groups))
	if q.turn == nil {
		q.turn, g.prev, g.next = g, g, g
	} else {
		g.next = cmp.Or(q.last, q.turn)
		g.prev = g.next.prev
		g.prev.next, g.next.prev = g, g
		if q.turn == q.last {
			q.turn = g
		}
	}
	return g
}

// Peek returns the waiter that is served next; nil if there is none.
func (q *Queue[T]) Peek() *Item[T] {
	switch {
	case q.own.first != nil:
		return q.own.first
	case q.turn == nil:
	case q.turn.turn == nil, q.turn.front.first != nil && q.turn.inRow < maxInRow:
		return q.turn.front.first
	default:
		return q.turn.turn.first
	}
	return nil
}

// Pop removes and returns the waiter that is served next; nil if there is none.
func (q *Queue[T]) Pop() *Item[T] {
	it := q.Peek()
	if it == nil {
		return nil
	}
	if m := it.member; m.group != nil {
		g := m.group
		if m == &g.front {
			g.inRow++
		} else {
			g.last, g.turn, g.inRow = m, m.next, 0
		}
		q.last, q.turn = g, g.next
	}
	q.Remove(it)
	return it
}

// Remove removes a waiter that is in q. It reports false if the waiter is not.
func (q *Queue[T]) Remove(it *Item[T]) bool {
	m := it.member
	if m == nil {
		return false
	}
	if it.prev == nil {
		m.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		m.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.member, it.prev, it.next = nil, nil, nil
	q.n--
	if m.first == nil && m.group != nil {
		q.forget(m)
	}
	return true
}

// All returns all waiters, those of each group together.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if !q.own.each(yield) || q.turn == nil {
			return
		}
		for g := q.turn; ; {
			if !g.front.each(yield) {
				return
			}
			for m := g.turn; m != nil; {
				if !m.each(yield) {
					return
				}
				if m = m.next; m == g.turn {
					break
				}
			}
			if g = g.next; g == q.turn {
				return
			}
		}
	}
}

// each calls yield for the waiters of m until that returns false.
func (m *member[T]) each(yield func(T) bool) bool {
	for it := m.first; it != nil; it = it.next {
		if !yield(it.Value) {
			return false
		}
	}
	return true
}
