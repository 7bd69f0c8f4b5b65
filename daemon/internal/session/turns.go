package session

import (
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/gate"
)

// A sessionPlace is what a session does with its place in the gate.
type sessionPlace interface {
	transport.Place
	OverdueBetween() bool // Overdue for a session that is between two requests
}

// A place is the place of a session in the gate, as transports know it. The session
// enters it when there is input, and leaves it at the end of the turn and before it
// waits. So what may wait is followed by Enter.
type place struct{ *gate.Place }

// Fork implements transport.Place.
func (p place) Fork() transport.Place { return place{p.Place.Fork()} }

// openPlace makes the place of a new session.
func (s *session) openPlace() {
	s.place = place{s.srv.gate.Place(&s.id.key)}
}

// Yield implements conn.Session: it lets others compute if they have waited for long. It is
// called in the middle of a request.
func (s *session) Yield() {
	if s.place.Overdue() {
		s.place.Leave()
		s.place.EnterAgain()
	}
}

// begin waits until the session may have a request in progress, unless it has one.
func (s *session) begin() {
	if s.slot.tryBegin() {
		return
	}
	p := &s.srv.progress
	s.srv.cfg.Limiter.Warn("progress "+s.id.origin(), "client[{client}] {address} and others of its user or host wait before pmcd reads their requests: {in_progress} requests of theirs are in progress, and of all clients {in_progress_limit} may be",
		"client", s.id.num, "address", s.id.addr, "in_progress", s.slot.group.used.Load(), "in_progress_limit", p.limit)
	s.slot.begin()
}

// withoutPlace calls f, which asks the operating system for users or groups and may have to
// wait for a server. Others may have the client's place meanwhile.
func (s *session) withoutPlace(f func()) {
	s.place.Leave()
	defer s.place.Enter()
	f()
}

// BeforeDecrypt implements conn.Session. What arrives in TLS has a cost before it is known
// whether there is a request in it.
func (s *session) BeforeDecrypt() {
	if s.srv.gate.Closed() { // there may be many that wait
		s.stream.Compact()
	}
	s.place.Enter()
}

// BeforeWait implements conn.Session. Nothing of the turn is needed any more but the input
// and what is being written.
func (s *session) BeforeWait() {
	if s.current != nil {
		s.current.shed()
	}
	s.endLarge()
	s.slot.end()
	s.place.Leave()
}
