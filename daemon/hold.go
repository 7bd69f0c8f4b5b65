package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// holds are those who use a connection to an agent. A reload that gives the
// agent up waits for them, and lets nobody else in.
type holds struct {
	mu   sync.Mutex // guards the following
	n    int
	free chan struct{} // not nil once nobody gets in any more; closed when n is 0
}

// take reports whether the connection may be used, until it is given back.
func (h *holds) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free != nil {
		return false
	}
	h.n++
	return true
}

func (h *holds) giveBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n--
	if h.n == 0 && h.free != nil {
		close(h.free)
	}
}

// drain returns when nobody uses the connection, after some time, or when ctx
// ends. It is called once.
func (h *holds) drain(ctx context.Context, limit time.Duration) {
	h.mu.Lock()
	h.free = make(chan struct{})
	if h.n == 0 {
		close(h.free)
	}
	h.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.free:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// available is hold for a request that a fence stops.
func (s *session) available(w *work, domain int) (*agent, *agentConn, error) {
	a, l := s.hold(w, domain)
	switch {
	case l == nil:
		return a, nil, pdu.ErrnoNoAgent
	case a.fenced.Load():
		l.holds.giveBack()
		return a, nil, pdu.ErrnoPMDAFenced
	}
	return a, l, nil
}

// hold returns the agent of a domain, nil if there is none, and the connection
// to it for one request, after which it is given back; nil if it is down. If a
// reload has replaced the agent since the request came, it is the new one.
func (s *session) hold(w *work, domain int) (*agent, *agentConn) {
	for {
		a := w.routes.agent(domain)
		if a == nil {
			return nil, nil
		}
		l := a.up()
		if l != nil && l.holds.take() {
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
