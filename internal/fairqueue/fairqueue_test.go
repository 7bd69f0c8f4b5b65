package fairqueue_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// key returns the key of a member of a group; nil is the daemon's own.
func key(group, member int) *fairqueue.Key {
	if group == 0 {
		return nil
	}
	g := fairqueue.Group{ID: uint64(group)}
	if group%2 == 0 { // the address counts, too
		g = fairqueue.Group{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(group)})}
	}
	return &fairqueue.Key{Group: g, Member: uint64(member)}
}

func TestTurns(t *testing.T) {
	type waiter struct{ group, member int }
	many := func(n int, w waiter) []waiter { return slices.Repeat([]waiter{w}, n) }
	members := func(n, group int) (ws []waiter) {
		for i := range n {
			ws = append(ws, waiter{group, i + 10})
		}
		return ws
	}
	tests := []struct {
		name string
		push []waiter
		who  waiter
		want int // its position
	}{
		{"alone", []waiter{{1, 1}}, waiter{1, 1}, 1},
		{"behind one of another group with many", append(many(200, waiter{1, 1}), waiter{2, 1}), waiter{2, 1}, 2},
		{"behind one of another group with many members", append(members(200, 1), waiter{2, 1}), waiter{2, 1}, 2},
		{"behind one of each other group", append(append(append(many(50, waiter{1, 1}), many(50, waiter{2, 1})...), many(50, waiter{3, 1})...), waiter{4, 1}), waiter{4, 1}, 4},
		{"behind one of another member with many", append(many(1000, waiter{1, 1}), waiter{1, 2}), waiter{1, 2}, 2},
		{"a group with many members has one turn", append(append(members(100, 1), many(3, waiter{2, 1})...), waiter{3, 1}), waiter{3, 1}, 3},
		{"the daemon's own is first", append(append(many(50, waiter{1, 1}), many(50, waiter{2, 1})...), waiter{0, 0}), waiter{0, 0}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q fairqueue.Queue[waiter]
			for _, w := range tt.push {
				q.Push(&fairqueue.Item[waiter]{Value: w}, key(w.group, w.member))
			}
			for n := 1; q.Len() > 0; n++ {
				if it := q.Pop(); it.Value == tt.who {
					if n != tt.want {
						t.Errorf("its position is %d, want %d", n, tt.want)
					}
					return
				}
			}
			t.Error("it is not in the queue")
		})
	}
}

// Clients with one connection each, which ask again when they have their replies, share
// the turns with one that always has many waiters. A client has its reply when the next
// one has got its turn.
func TestTurnsInALoop(t *testing.T) {
	type waiter struct {
		name          string
		group, member int
	}
	busy := waiter{"-", 1, 1}
	tests := []struct {
		name  string
		loops []waiter
		want  string
	}{
		{"another group", []waiter{{"a", 2, 1}}, "a-a-a-a-"},
		{"another member", []waiter{{"a", 1, 2}}, "a-a-a-a-"},
		{"two groups", []waiter{{"a", 2, 1}, {"b", 3, 1}}, "ab-ab-ab-"},
		{"two members", []waiter{{"a", 1, 2}, {"b", 1, 3}}, "ab-ab-ab-"},
		{"two members of another group", []waiter{{"a", 2, 1}, {"b", 2, 2}}, "a-b-a-b-"},
		{"a group and a member", []waiter{{"a", 2, 1}, {"b", 1, 2}}, "aba-aba-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q fairqueue.Queue[waiter]
			push := func(it *fairqueue.Item[waiter]) { q.Push(it, key(it.Value.group, it.Value.member)) }
			for range 10 {
				push(&fairqueue.Item[waiter]{Value: busy})
			}
			served, got := q.Pop(), ""
			for _, w := range tt.loops {
				push(&fairqueue.Item[waiter]{Value: w})
			}
			for range tt.want {
				next := q.Pop()
				got += next.Value.name
				push(served)
				served = next
			}
			if got != tt.want {
				t.Errorf("the turns are %s, want %s", got, tt.want)
			}
		})
	}
}

// A model is a slow Queue: lists in lists.
type model struct {
	own    []int
	groups []modelGroup // the first is served next
	last   int          // the group that was served last, if it has had waiters since; it is the last of groups
}

type modelGroup struct {
	id      int
	front   []int
	inRow   int
	members []modelMember // the first is served next
	last    int           // the member, as above; -1 if there is none
}

type modelMember struct {
	id      int
	waiters []int
}

func (m *model) group(id int) *modelGroup {
	g := slices.IndexFunc(m.groups, func(g modelGroup) bool { return g.id == id })
	if g < 0 {
		if g = len(m.groups); m.last != 0 {
			g--
		}
		m.groups = slices.Insert(m.groups, g, modelGroup{id: id, last: -1})
	}
	return &m.groups[g]
}

func (m *model) push(group, member, w int) {
	if group == 0 {
		m.own = append(m.own, w)
		return
	}
	g := m.group(group)
	i := slices.IndexFunc(g.members, func(x modelMember) bool { return x.id == member })
	if i < 0 {
		if i = len(g.members); g.last >= 0 {
			i--
		}
		g.members = slices.Insert(g.members, i, modelMember{id: member})
	}
	g.members[i].waiters = append(g.members[i].waiters, w)
}

func (m *model) pushFront(group, w int) {
	g := m.group(group)
	g.front = append(g.front, w)
}

func (m *model) pop() int {
	if len(m.own) > 0 {
		w := m.own[0]
		m.own = m.own[1:]
		return w
	}
	if len(m.groups) == 0 {
		return -1
	}
	g := m.groups[0]
	var w int
	if len(g.members) == 0 || len(g.front) > 0 && g.inRow < 8 {
		w = g.front[0]
		g.inRow++
	} else {
		x := g.members[0]
		w = x.waiters[0]
		g.inRow = 0
		g.members, g.last = append(slices.Clone(g.members[1:]), x), x.id
	}
	m.groups, m.last = append(slices.Clone(m.groups[1:]), g), g.id
	m.remove(w)
	return w
}

func (m *model) remove(w int) {
	drop := func(list []int) []int { return slices.DeleteFunc(list, func(x int) bool { return x == w }) }
	m.own = drop(m.own)
	for i := range m.groups {
		g := &m.groups[i]
		g.front = drop(g.front)
		for i := range g.members {
			g.members[i].waiters = drop(g.members[i].waiters)
		}
		g.members = slices.DeleteFunc(g.members, func(x modelMember) bool {
			if len(x.waiters) == 0 && x.id == g.last {
				g.last = -1
			}
			return len(x.waiters) == 0
		})
	}
	m.groups = slices.DeleteFunc(m.groups, func(g modelGroup) bool {
		over := len(g.members)+len(g.front) == 0
		if over && g.id == m.last {
			m.last = 0
		}
		return over
	})
}

// compare does what ops say with a Queue and with a model. Each operation is a byte:
// two bits for the kind of operation, and the rest for the waiter.
func compare(ops []byte) error {
	var q fairqueue.Queue[int]
	var m model
	var items []*fairqueue.Item[int] // by number
	var waiting []int
	for i, op := range ops {
		switch op & 3 {
		case 0, 1:
			group, member := int(op>>2&7), int(op>>5)
			w := len(items)
			items = append(items, &fairqueue.Item[int]{Value: w})
			if group > 0 && op&3 == 1 && op>>2&1 == 0 {
				q.PushFront(items[w], key(group, member))
				m.pushFront(group, w)
			} else {
				q.Push(items[w], key(group, member))
				m.push(group, member, w)
			}
			waiting = append(waiting, w)
		case 2:
			want, got, peeked := m.pop(), -1, -1
			if it := q.Peek(); it != nil {
				peeked = it.Value
			}
			if it := q.Pop(); it != nil {
				got = it.Value
			}
			if got != want || peeked != want {
				return fmt.Errorf("operation %d: Pop returned %d and Peek %d, want %d", i, got, peeked, want)
			}
			waiting = slices.DeleteFunc(waiting, func(w int) bool { return w == want })
		case 3:
			if len(items) == 0 {
				continue
			}
			w := int(op>>2) % len(items)
			in := slices.Contains(waiting, w)
			if q.Remove(items[w]) != in {
				return fmt.Errorf("operation %d: Remove returned %v, want %v", i, !in, in)
			}
			m.remove(w)
			waiting = slices.DeleteFunc(waiting, func(x int) bool { return x == w })
		}
		if q.Len() != len(waiting) {
			return fmt.Errorf("operation %d: the length is %d, want %d", i, q.Len(), len(waiting))
		}
	}
	all := slices.Collect(q.All())
	slices.Sort(all)
	if slices.Sort(waiting); !slices.Equal(all, waiting) {
		return fmt.Errorf("All returned %v, want %v", all, waiting)
	}
	return nil
}

func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		ops := make([]byte, r.IntN(500))
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		if err := compare(ops); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 4, 5, 36, 8, 2, 2, 7, 2})
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 1000)] // the model is slow
		if err := compare(ops); err != nil {
			t.Fatalf("%v: %v", ops, err)
		}
	})
}

// A long-lived Queue keeps no memory of the clients that there were.
func TestForgets(t *testing.T) {
	var q fairqueue.Queue[int]
	item := new(fairqueue.Item[int])
	run := func(from, n int) {
		for i := range n {
			q.Push(item, &fairqueue.Key{Group: fairqueue.Group{ID: uint64(from + i)}})
			q.Pop()
		}
	}
	run(0, 1000)
	if allocs := testing.AllocsPerRun(10, func() { run(1000, 1000) }); allocs > 10 {
		t.Errorf("%v allocations for 1000 groups, one after the other", allocs)
	}
}

func BenchmarkPushPop(b *testing.B) {
	for _, n := range []int{1, 200, 10_000} {
		b.Run(fmt.Sprintf("%d members", n), func(b *testing.B) {
			var q fairqueue.Queue[int]
			items := make([]fairqueue.Item[int], n)
			keys := make([]fairqueue.Key, n)
			for i := range items {
				keys[i] = fairqueue.Key{Group: fairqueue.Group{ID: 1}, Member: uint64(i)}
				items[i].Value = i
				q.Push(&items[i], &keys[i])
			}
			for b.Loop() {
				it := q.Pop()
				q.Push(it, &keys[it.Value])
			}
		})
	}
}
