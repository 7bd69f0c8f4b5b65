package session

import (
	"errors"

	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/internal/transport"
)

// DefaultMaxInProgress is how many sessions may have a request in progress: more than a pmproxy
// has connections. The next ones wait before they read their requests, so thousands of clients
// that wait for an agent hold no memory. Most requests wait for agents, and each has some 40 KB
// for what it has done so far.
const DefaultMaxInProgress = 1024

// maxUnanswered is how many clients may wait for the answer to their first request: for a slot,
// the look-up of a user or a TLS handshake. Each has a descriptor and some 10 KB, also if the
// client has disconnected meanwhile. Clients that have sent no request, or a part of one, do not
// count.
const maxUnanswered = 4096

// limits are what the clients of a Server may hold together. The memory has a limit for each
// kind: those who hold much of one do not take the rest, and the one to evict is found among few.
type limits struct {
	profiles, requests, unread, unanswered quota.Limit
}

// set sets the limits, of so many bytes of memory.
func (l *limits) set(memory int64) {
	l.profiles = quota.Limit{Name: "profiles", Unit: "bytes", All: memory / 4}
	l.requests = quota.Limit{Name: "incomplete requests", Unit: "bytes", All: memory / 12}
	l.unread = quota.Limit{Name: "unread replies", Unit: "bytes", All: memory - memory/4 - memory/12}
	l.unanswered = quota.Limit{Name: "unanswered clients", All: maxUnanswered}
}

// holdings are what one client holds of these. The goroutine of the session uses them.
type holdings struct {
	client                                 quota.Client
	profiles, requests, unread, unanswered *quota.Account

	request int64 // bytes of the current request
	waits   bool  // for the first answer
}

// Limits returns the use of the limits.
func (s *Server) Limits() []quota.Status {
	l := &s.limits
	list := []quota.Status{
		l.unread.Status(),
		{Name: "requests in progress", Used: s.inProgress.Used(), Limit: s.inProgress.Limit()},
		l.unanswered.Status(), l.profiles.Status(), l.requests.Status(),
	}
	if s.Secure() {
		n, most := s.tls.Handshakes()
		list = append(list, quota.Status{Name: "TLS handshakes", Used: n, Limit: most})
	}
	if h := s.admission.sasl(); h != nil {
		n, most := h.LoginLimit()
		list = append(list, quota.Status{Name: "logins", Used: n, Limit: most})
	}
	return list
}

// openHoldings opens the Accounts of c. The clients of a host are one member, as it is not known
// which processes they are.
func (s *Server) openHoldings(h *holdings, c *clients.Client) {
	h.client.Key, h.client.Address = c.Key, c.Addr
	if !c.Conn.Peer().Unix {
		h.client.Key.Member = 0
	}
	h.client.Evict = func(err error) {
		c.Conn.Interrupt(err)
		c.Conn.Abort()
	}
	l := &s.limits
	h.profiles, h.requests = l.profiles.Open(&h.client), l.requests.Open(&h.client)
	h.unread, h.unanswered = l.unread.Open(&h.client), l.unanswered.Open(&h.client)
}

// Unread implements conn.Session.
func (s *session) Unread() *quota.Account { return s.holds.unread }

// closeHoldings ends what the client holds. It counts a client that has exceeded a limit.
func (s *session) closeHoldings() {
	if e := new(quota.Error); errors.As(s.err, &e) {
		e.Limit.Disconnected(&s.holds.client)
	}
	s.holds.profiles.Close()
	s.holds.requests.Close()
	s.holds.unread.Close()
}

// awaitAnswer is called when there is input of the client. Until its first answer it counts as
// unanswered.
func (s *session) awaitAnswer() error {
	if s.answered || s.holds.waits {
		return nil
	}
	err := s.holds.unanswered.Hold(1)
	s.holds.waits = err == nil
	return err
}

// noAnswer is called when the client waits for no answer.
func (s *session) noAnswer() {
	if s.holds.waits {
		s.holds.waits = false
		s.holds.unanswered.Drop(1)
	}
}

// holdProfile accounts for a profile that replaces old, which may be nil. If it returns an
// error, neither of the two is accounted for.
func (s *session) holdProfile(old, new *transport.Profile) error {
	before := int64(0)
	if old != nil {
		before = old.Size()
	}
	more := new.Size() - before
	if more <= 0 {
		s.holds.profiles.Drop(-more)
		return nil
	}
	err := s.holds.profiles.Hold(more)
	if err != nil {
		s.holds.profiles.Drop(before)
	}
	return err
}

// freeRequest is the memory for an incomplete request, in bytes, that is not accounted for.
const freeRequest = 4 << 10

// holdRequest accounts for a buffer of n bytes for an incomplete request.
func (s *session) holdRequest(n int64) error {
	if n <= freeRequest || n <= s.holds.request {
		return nil
	}
	if err := s.holds.requests.Hold(n - s.holds.request); err != nil {
		return err
	}
	s.holds.request = n
	return nil
}

// dropRequest undoes holdRequest.
func (s *session) dropRequest() {
	if s.holds.request > 0 {
		s.holds.requests.Drop(s.holds.request)
		s.holds.request = 0
	}
}
