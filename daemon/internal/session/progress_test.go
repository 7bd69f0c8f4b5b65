package session

import (
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// openSlots returns n slots of members of a group, from 0 on.
func openSlots(p *progress, group uint64, n int) (slots []*requestSlot) {
	for i := range n {
		s := p.open(&fairqueue.Key{Group: fairqueue.Group{ID: group}, Member: uint64(i)})
		slots = append(slots, &s)
	}
	return slots
}

// tryAll returns how many of the slots may begin now.
func tryAll(slots []*requestSlot) (n int) {
	for _, s := range slots {
		if s.tryBegin() {
			n++
		}
	}
	return n
}

// As many sessions as the limit says have a request in progress, and others wait until one
// of these has ended. A group with less than its share does not wait.
func TestProgress(t *testing.T) {
	testutil.CheckLeaks(t)
	p := &progress{limit: 10}
	first, second, third := openSlots(p, 1, 20), openSlots(p, 2, 20), openSlots(p, 3, 20)
	if n := tryAll(first); n != 10 {
		t.Errorf("%d of the first group have begun, want 10", n)
	}
	if n := tryAll(second); n != 3 {
		t.Errorf("%d of the second group have begun, want 3: a third of 10", n)
	}
	if n := tryAll(third); n != 2 {
		t.Errorf("%d of the third group have begun, want 2: a quarter of 10", n)
	}
	var mu sync.Mutex
	var order []int
	begun := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(order)
	}
	var all sync.WaitGroup
	wait := func(of int, s *requestSlot) {
		before := p.waiting.Load()
		all.Go(func() {
			s.begin()
			mu.Lock()
			defer mu.Unlock()
			order = append(order, of)
		})
		testutil.Eventually(t, "it waits", func() bool { return p.waiting.Load() == before+1 })
	}
	wait(1, first[10])
	wait(1, first[11])
	wait(3, third[2])
	second[0].end() // 14 are left, and the share of the others is used
	for _, s := range first[:4] {
		s.end()
	}
	if n := begun(); n != 0 {
		t.Errorf("%d have begun while there are 10, want 0", n)
	}
	third[0].end() // so it has less than its share
	testutil.Eventually(t, "the third group is served", func() bool { return begun() == 1 })
	first[4].end()
	testutil.Eventually(t, "a group has a turn", func() bool { return begun() == 2 })
	p.stop()
	all.Wait()
	if want := []int{3, 1, 1}; !slices.Equal(order, want) {
		t.Errorf("groups have begun in the order %v, want %v", order, want)
	}
	for _, s := range slices.Concat(first, second, third) {
		s.close()
	}
	if used, active, groups := p.used.Load(), p.active.Load(), len(p.groups); used != 0 || active != 0 || groups != 0 {
		t.Errorf("%d requests and %d of %d groups are left at the end", used, active, groups)
	}
}

// With many groups at work, no more than the limit begin and all of them end.
func TestProgressOfMany(t *testing.T) {
	p := &progress{limit: 3}
	var all sync.WaitGroup
	for group := range uint64(8) {
		for _, s := range openSlots(p, group, 8) {
			all.Go(func() {
				for range 200 {
					s.begin()
					if n := p.used.Load(); n > 3+8+64 { // one of each group, and those that look
						t.Errorf("%d requests in progress", n)
					}
					s.end()
				}
				s.close()
			})
		}
	}
	all.Wait()
	if used, waiting := p.used.Load(), p.waiting.Load(); used != 0 || waiting != 0 {
		t.Errorf("%d requests in progress and %d waiting at the end", used, waiting)
	}
}

// A session that waits for others to end their requests has read nothing of its own. One
// that waits for its client lets others begin.
func TestSessionsInProgress(t *testing.T) {
	s, c := newTurn(t, routes.New(nil, new(pmnsload.Tree)), &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)})
	s.srv.progress.limit = 1
	c.input <- c.unread
	read := false
	c.onRead = func() { read = true }
	other := s.srv.progress.open(&s.client.Key)
	other.begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.session.Serve()
	}()
	testutil.Eventually(t, "the session waits", func() bool { return s.srv.progress.waiting.Load() == 1 })
	if n := s.srv.slots.InUse(); read || n != 0 {
		t.Errorf("the session has read: %v, and %d slots are in use while it waits", read, n)
	}
	other.end()
	<-c.replies
	close(c.input)
	<-done
	if other.begin(); !read {
		t.Error("nothing was read")
	}
	other.end()

	waiting, _ := newTurn(t, routes.New(nil, new(pmnsload.Tree)))
	waiting.inProgress.begin()
	waiting.BeforeWait()
	if n := waiting.srv.progress.used.Load(); n != 0 {
		t.Errorf("%d requests in progress while a session waits for its client", n)
	}
}
