package fairqueue_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/fairqueue"
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
	a, b := start(l, 60, many), start(l, 40, many)
	check("room", 100, uses(a, b), nil)
	if _, ok := l.Next(); ok {
		t.Error("one is next, though none waits")
	}
	c, d, e := start(l, 10, many), start(l, 20, many), start(l, 90, other)
	check("no room", 100, nil, uses(c, d, e))
	b.End()
	check("40 left", 70, uses(c), uses(d, e))
	if next, ok := l.Next(); !ok || next != other {
		t.Errorf("next is %v, %t", next, ok)
	}
	a.End()
	check("60 left", 100, uses(e), uses(d))
	c.End()
	f := start(l, 500, other)
	check("10 left", 90, nil, uses(d, f))
	e.End()
	e.End() // has no effect
	check("90 left", 20, uses(d), uses(f))
	d.End()
	check("larger than the limit", 500, uses(f), nil)
	f.End()
	check("the end", 0, nil, nil)
}

// What ends while it waits never begins, and those behind it may begin.
func TestLimiterEndOfWaiting(t *testing.T) {
	l := fairqueue.NewLimiter(2)
	first, large, small := start(l, 1, groupKey(1)), start(l, 2, groupKey(2)), start(l, 1, groupKey(3))
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
	running := start(l, 1, groupKey(1))
	groups := []uint64{1, 1, 1, 1, 2, 3, 2}
	waiting := make(map[*fairqueue.Use]uint64)
	for _, group := range groups {
		waiting[start(l, 1, groupKey(group))] = group
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
		t.Errorf("order of groups %d, want %d", got, want)
	}
}

// What waits begins when the limit is higher. What has begun goes on when it is lower.
func TestSetLimit(t *testing.T) {
	l := fairqueue.NewLimiter(2)
	var uses []*fairqueue.Use
	for range 6 {
		uses = append(uses, start(l, 1, groupKey(1)))
	}
	for _, step := range []struct {
		limit int64
		ended int // how many of uses
		used  int64
	}{{2, 0, 2}, {4, 0, 4}, {1, 0, 4}, {1, 3, 1}, {1, 4, 1}, {1, 5, 1}, {3, 5, 1}} {
		for _, u := range uses[:step.ended] {
			u.End()
		}
		l.SetLimit(step.limit)
		if l.Limit() != step.limit || l.Used() != step.used {
			t.Errorf("limit %d, %d have ended: the limit is %d, %d are used; want %d", step.limit, step.ended, l.Limit(), l.Used(), step.used)
		}
	}
}

// start starts a new Use.
func start(l *fairqueue.Limiter, size int64, key fairqueue.Key) *fairqueue.Use {
	u := new(fairqueue.Use)
	l.Start(u, size, &key)
	return u
}

// Groups share a limit. One with less than its share does not wait, also when all is in use.
func TestSharing(t *testing.T) {
	l := fairqueue.NewSharing(10)
	groups := make(map[uint64][]*fairqueue.Use)
	begun := func(group uint64) (n int) {
		for _, u := range groups[group] {
			if u.HasBegun() {
				n++
			}
		}
		return n
	}
	for group, want := range []int{10, 3, 2} { // a third of 10, and a quarter
		id := uint64(group)
		for range 20 {
			groups[id] = append(groups[id], start(l, 1, groupKey(id)))
		}
		if n := begun(id); n != want || l.UsedBy(groupKey(id).Group) != int64(want) {
			t.Errorf("%d of group %d have begun, want %d", n, id, want)
		}
	}
	for _, u := range groups[0][:4] {
		u.End()
	}
	if n := begun(0); n != 10 {
		t.Errorf("%d of the first group have begun while more than 10 are in use, want 10", n)
	}
	groups[2][0].End() // so its group has less than its share
	if n := begun(2); n != 3 {
		t.Errorf("%d of the third group have begun after the end of one, want 3", n)
	}
	groups[0][4].End() // 10 are left
	groups[0][5].End()
	if n := begun(0) + begun(1) + begun(2); n != 10+3+3+1 {
		t.Errorf("%d have begun after the end of one above the shares, want 17", n)
	}
	l.Open()
	for id := range groups {
		if n := begun(id); n != 20 {
			t.Errorf("%d of group %d have begun after Open, want 20", n, id)
		}
		for _, u := range groups[id] {
			u.End()
			u.End() // has no effect
		}
	}
	if l.Used() != 0 || l.UsedBy(fairqueue.Group{}) != 0 || l.Waiting() != 0 {
		t.Errorf("%d are used at the end, %d of the first group, and %d wait", l.Used(), l.UsedBy(fairqueue.Group{}), l.Waiting())
	}
	again := start(l, 1, groupKey(1))
	if again.End(); l.Start(again, 2, new(groupKey(1))) != true || l.Used() != 2 {
		t.Errorf("%d are used by a Use that is started again", l.Used())
	}
}

// What begins because its group has its share does not delay another group.
func TestSharingKeepsTurns(t *testing.T) {
	l := fairqueue.NewSharing(4)
	running := make([]*fairqueue.Use, 4)
	for i := range running {
		running[i] = start(l, 1, groupKey(uint64(1+i%2)))
	}
	a, d := start(l, 1, groupKey(1)), start(l, 1, groupKey(2))
	for range 3 {
		c := start(l, 1, groupKey(3))
		if !c.HasBegun() {
			t.Fatal("a group that uses nothing waits")
		}
		c.End()
	}
	running[0].End()
	if !a.HasBegun() || d.HasBegun() {
		t.Errorf("the first one has begun: %v, the second: %v", a.HasBegun(), d.HasBegun())
	}
}

// With many groups at work, each gets what it asks for, and nothing is left.
func TestSharingOfMany(t *testing.T) {
	l := fairqueue.NewSharing(3)
	var all sync.WaitGroup
	for i := range 64 {
		key := groupKey(uint64(i % 8))
		all.Go(func() {
			var u fairqueue.Use
			for range 200 {
				if !l.Start(&u, 1, &key) {
					<-u.Begun()
				}
				if n := l.Used(); n > 3+8 { // one of each group above the limit
					t.Errorf("%d are in use", n)
				}
				u.End()
			}
		})
	}
	all.Wait()
	if l.Used() != 0 || l.Waiting() != 0 {
		t.Errorf("%d are used at the end, and %d wait", l.Used(), l.Waiting())
	}
}

func groupKey(id uint64) fairqueue.Key {
	return fairqueue.Key{Group: fairqueue.Group{ID: id}}
}
