package session

import (
	"testing"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
	"github.com/gopcp/pmcd/daemon/internal/routes"
)

// A session waits for the turn of a large reply without its place, and gives the room back
// when it has to wait for its client.
func TestLargeReplyWaits(t *testing.T) {
	p := new(transporttest.Place)
	s, _ := newTurn(t, p, new(routes.Table))
	p.Enter()
	if s.beginLarge(minLargeReply - 1); s.large != nil {
		t.Error("a small reply has a turn")
	}
	first := s.srv.large.Start(maxLargeReplies, fairqueue.Key{})
	left := p.Left()
	begun := make(chan struct{})
	go func() {
		s.beginLarge(minLargeReply)
		close(begun)
	}()
	testutil.Eventually(t, "the session leaves its place", func() bool { return p.Left() > left })
	first.End()
	<-begun
	if !p.Entered() || s.srv.large.Used() != minLargeReply {
		t.Errorf("in its place: %t, %d bytes in use", p.Entered(), s.srv.large.Used())
	}
	s.BeforeWait()
	s.endLarge()
	if s.srv.large.Used() != 0 {
		t.Errorf("%d bytes in use while the session waits for its client", s.srv.large.Used())
	}
}
