package daemon

import (
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// available is acquire for a request that a fence stops.
func (s *session) available(w *work, domain int) (*agentset.Agent, *agentset.Conn, error) {
	a, l := s.acquire(w, domain)
	switch {
	case l == nil:
		return a, nil, pdu.ErrnoNoAgent
	case a.Fenced():
		l.Release()
		return a, nil, pdu.ErrnoPMDAFenced
	}
	return a, l, nil
}

// acquire returns the agent of a domain, nil if there is none, and the connection
// to it for one request, after which that is to be released; nil if it is down. If
// a reload has replaced the agent since the request came, it is the new one.
func (s *session) acquire(w *work, domain int) (*agentset.Agent, *agentset.Conn) {
	for {
		a := w.routes.Agent(domain)
		if a == nil {
			return nil, nil
		}
		l := a.AwaitConn()
		if l != nil && l.Acquire() {
			s.asked.add(domain)
			return a, l
		}
		now := s.d.routes.Load()
		if now == w.routes {
			return a, nil
		}
		w.routes = now
	}
}
