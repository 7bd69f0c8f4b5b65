package session

import (
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/daemon/internal/routes"
)

// A session waits for the turn of a large reply without a slot, and gives the room back
// when it has to wait for its client.
func TestLargeReplyWaits(t *testing.T) {
	s, _ := withInput(t, new(routes.Table))
	s.cpu.Take()
	if s.beginLarge(minLargeReply - 1); s.large != nil {
		t.Error("a small reply has a turn")
	}
	var first fairqueue.Use
	s.srv.large.Start(&first, DefaultLargeReplies, new(fairqueue.Key))
	begun := make(chan struct{})
	go func() {
		s.beginLarge(minLargeReply)
		close(begun)
	}()
	testutil.Eventually(t, "the session gives its slot back", func() bool { return s.srv.slots.InUse() == 0 })
	first.End()
	<-begun
	if n := s.srv.slots.InUse(); n != 1 || s.srv.large.Used() != minLargeReply {
		t.Errorf("%d slots and %d bytes in use", n, s.srv.large.Used())
	}
	want := quota.Status{Name: "large replies", Unit: "bytes", Used: minLargeReply, Limit: DefaultLargeReplies}
	if list := s.srv.Limits(); !slices.Contains(list, want) {
		t.Errorf("the limits are %+v", list)
	}
	s.BeforeWait()
	s.endLarge()
	if s.srv.large.Used() != 0 {
		t.Errorf("%d bytes in use while the session waits for its client", s.srv.large.Used())
	}
}
