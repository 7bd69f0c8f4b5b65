package fairqueue_test

import (
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// Uses begin while there is room. Clients take turns, no Use overtakes the next one, and one
// may be larger than the limit.
func TestLimiter(t *testing.T) {
	l := fairqueue.NewLimiter(100)
	many, other := groupKey(1), groupKey(2)
	check := func(what string, used int64, begun, waiting []*fairqueue.Use) {
		t.Helper()
		for i, u := range begun {
			if !u.HasBegun() {
				t.Errorf("%s: %d of those that should have begun waits", what, i)
			}
		}
		for i, u := range waiting {
			if u.HasBegun() {
				t.Errorf("%s: %d of those that should wait has begun", what, i)
			}
		}
		if n := l.Used(); n != used {
			t.Errorf("%s: %d is used, want %d", what, n, used)
		}
		if n := l.Waiting(); n != len(waiting) {
			t.Errorf("%s: %d wait, want %d", what, n, len(waiting))
		}
	}
	uses := func(list ...*fairqueue.Use) []*fairqueue.Use { return list }
	a, b := l.Start(60, many), l.Start(40, many)
	check("room", 100, uses(a, b), nil)
	if _, ok := l.Next(); ok {
		t.Error("one is next, though none waits")
	}
	c, d, e := l.Start(10, many), l.Start(20, many), l.Start(90, other)
	check("no room", 100, nil, uses(c, d, e))
	b.End()
	check("40 left", 70, uses(c), uses(d, e))
	if next, ok := l.Next(); !ok || next != other {
		t.Errorf("next is %v, %t", next, ok)
	}
	a.End()
	check("60 left", 100, uses(e), uses(d))
	c.End()
	f := l.Start(500, other)
	check("10 left", 90, nil, uses(d, f))
	e.End()
	e.End() // has no effect
	check("90 left", 20, uses(d), uses(f))
	d.End()
	check("larger than the limit", 500, uses(f), nil)
	f.End()
	check("the end", 0, nil, nil)
}

// What ends while it waits has no turn, and those behind it may begin.
func TestLimiterEndOfWaiting(t *testing.T) {
	l := fairqueue.NewLimiter(2)
	first, large, small := l.Start(1, groupKey(1)), l.Start(2, groupKey(2)), l.Start(1, groupKey(3))
	if !first.HasBegun() || large.HasBegun() || small.HasBegun() {
		t.Fatal("not only the first one has begun")
	}
	large.End()
	if large.HasBegun() || !small.HasBegun() {
		t.Errorf("the one that has ended has begun: %t; the one behind it: %t", large.HasBegun(), small.HasBegun())
	}
	first.End()
	small.End()
	if l.Used() != 0 || l.Waiting() != 0 {
		t.Errorf("%d used, %d waiting at the end", l.Used(), l.Waiting())
	}
}

// Groups take turns.
func TestLimiterTurns(t *testing.T) {
	l := fairqueue.NewLimiter(1)
	running := l.Start(1, groupKey(1))
	groups := []uint64{1, 1, 1, 1, 2, 3, 2}
	waiting := make(map[*fairqueue.Use]uint64)
	for _, group := range groups {
		waiting[l.Start(1, groupKey(group))] = group
	}
	var got []uint64
	for range groups {
		running.End()
		for u, group := range waiting {
			if u.HasBegun() {
				got = append(got, group)
				delete(waiting, u)
				running = u
				break
			}
		}
	}
	if want := []uint64{1, 2, 3, 1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("turns of groups %d, want %d", got, want)
	}
}

func groupKey(id uint64) fairqueue.Key {
	return fairqueue.Key{Group: fairqueue.Group{ID: id}}
}
