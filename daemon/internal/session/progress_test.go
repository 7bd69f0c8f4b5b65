package session

import (
	"errors"
	"io"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pmnsload"
)

// While as many clients of a group as may wait for their first answer do so, the next one is
// disconnected without a slot. One of another group is served, and so is one when another has
// had its answer.
func TestUnanswered(t *testing.T) {
	first, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), pdutest.Creds(0))
	srv := first.srv
	group := first.client.Key.Group
	gone := 0
	limit := &srv.limits.unanswered
	used := func() int64 { return limit.Status().Used }
	wait := func(key fairqueue.Key) *quota.Account {
		a := limit.Open(&quota.Client{Key: key, Evict: func(error) { gone++ }})
		if err := a.Hold(1); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range maxUnanswered {
		wait(first.holds.client.Key)
	}
	other := wait(fairqueue.Key{Group: fairqueue.Group{ID: 1 + group.ID}})
	if gone != 1 {
		t.Errorf("%d clients were evicted for one of another group, want 1", gone)
	}
	other.Close()
	// serve serves a client that sends input and leaves.
	serve := func(input []byte) *session {
		conn := &fakeConn{peer: first.client.Conn.Peer(), input: make(chan []byte, 2), replies: make(chan []byte, 10)}
		client, _ := srv.Accept(conn)
		conn.input <- input
		close(conn.input)
		client.Serve()
		return client.(*session)
	}
	hold := make(chan struct{})
	waiting := &fakeConn{peer: first.client.Conn.Peer(), input: make(chan []byte, 1), replies: make(chan []byte, 10), onRead: func() { <-hold }}
	client, _ := srv.Accept(waiting)
	go client.Serve()
	if n := used(); n != maxUnanswered-1 {
		t.Errorf("%d with a client that has asked nothing", n)
	}
	waiting.input <- c.unread
	testutil.Eventually(t, "a client waits", func() bool { return used() == maxUnanswered })
	if s := serve(c.unread); !errors.As(s.err, new(*quota.Error)) {
		t.Errorf("the next client: %v", s.err)
	}
	if i := limit.Status(); i.Disconnected != 1 || i.Used != maxUnanswered {
		t.Errorf("%+v", i)
	}
	close(hold)
	testutil.Eventually(t, "it has its answer", func() bool { return used() == maxUnanswered-1 })
	if s := serve(c.unread); !errors.Is(s.err, io.EOF) {
		t.Errorf("a client after that: %v", s.err)
	}
	close(waiting.input)
	testutil.Eventually(t, "no client is left", func() bool { return srv.NumClients() == 1 })
	if n := used(); n != maxUnanswered-1 {
		t.Errorf("%d are counted at the end", n)
	}
}

// A session that waits for others to end their requests has read nothing of its own. One
// that waits for its client lets others begin.
func TestSessionsInProgress(t *testing.T) {
	s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)})
	s.srv.inProgress = fairqueue.NewLimiter(1)
	c.input <- c.unread
	read := false
	c.onRead = func() { read = true }
	var other fairqueue.Use
	s.srv.inProgress.Start(&other, 1, &s.client.Key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.session.Serve()
	}()
	testutil.Eventually(t, "the session waits", func() bool { return s.srv.inProgress.Waiting() == 1 })
	if n := s.srv.slots.InUse(); read || n != 0 {
		t.Errorf("the session has read: %v, and %d slots are in use while it waits", read, n)
	}
	other.End()
	<-c.replies
	close(c.input)
	<-done
	if !read {
		t.Error("nothing was read")
	}

	waiting, _ := withInput(t, routes.New(nil, new(pmnsload.Tree)))
	waiting.begin()
	waiting.BeforeWait()
	if n := waiting.srv.inProgress.Used(); n != 0 {
		t.Errorf("%d requests in progress while a session waits for its client", n)
	}
}
