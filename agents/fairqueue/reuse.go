package fairqueue

// maxFree is how many groups and members a Queue keeps for reuse.
const maxFree = 64

// forget removes a member without waiters, and its group if that has no others.
func (q *Queue[T]) forget(m *member[T]) {
	g := m.group
	if m != &g.front {
		q.forgetMember(m)
	}
	if g.turn == nil && g.front.first == nil {
		q.forgetGroup(g)
	}
	if len(q.groups) == 0 && q.most > maxFree { // a map does not shrink
		q.members, q.groups, q.most = nil, nil, 0
	}
}

func (q *Queue[T]) forgetMember(m *member[T]) {
	g := m.group
	delete(q.members, m.key)
	m.prev.next, m.next.prev = m.next, m.prev
	if g.turn == m {
		g.turn = m.next
	}
	if g.last == m {
		g.last = nil
	}
	if m.next == m {
		g.turn = nil
	}
	*m = member[T]{}
	if q.free < maxFree {
		q.free++
		m.next, q.freeMembers = q.freeMembers, m
	}
}

func (q *Queue[T]) forgetGroup(g *group[T]) {
	delete(q.groups, g.id)
	g.prev.next, g.next.prev = g.next, g.prev
	if q.turn == g {
		q.turn = g.next
	}
	if q.last == g {
		q.last = nil
	}
	if g.next == g {
		q.turn = nil
	}
	*g = group[T]{}
	if q.free < maxFree {
		q.free++
		g.next, q.freeGroups = q.freeGroups, g
	}
}

func (q *Queue[T]) newGroup() *group[T] {
	g := q.freeGroups
	if g == nil {
		return new(group[T])
	}
	q.free--
	q.freeGroups, g.next = g.next, nil
	return g
}

func (q *Queue[T]) newMember() *member[T] {
	m := q.freeMembers
	if m == nil {
		return new(member[T])
	}
	q.free--
	q.freeMembers, m.next = m.next, nil
	return m
}
