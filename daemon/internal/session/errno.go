package session

import (
	"errors"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// logTooLong logs err if it means that a reply is too long: the reply of a or, if a is nil,
// the reply to the client.
func (s *session) logTooLong(request pdu.Type, a *agentset.Agent, err error) {
	if errnoOf(err) != pdu.ErrnoTooBig {
		return
	}
	from := "the reply"
	attrs := []any{"client", s.client.Num, "address", s.client.Addr, "request", request, "limit", s.srv.cfg.MaxReply}
	if a != nil {
		from = "the reply of agent {agent:q} (dom {domain})"
		attrs = append(attrs, "agent", a.Name(), "domain", a.Domain)
	}
	s.srv.cfg.Limiter.Warn("too long", "client[{client}] {address}: "+from+" to {request} would have more than {limit} bytes (--max-reply)", attrs...)
}

// errnoOf returns the code of err for a client.
func errnoOf(err error) pdu.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, transport.ErrLate), errors.Is(err, transport.ErrNotReady):
		return pdu.ErrnoAgain
	case errors.Is(err, access.ErrConnLimit):
		return pdu.ErrnoConnLimit
	case errors.Is(err, access.ErrDenied), errors.As(err, new(*access.AccountError)):
		return pdu.ErrnoPermission
	}
	return pdu.ErrnoOf(err)
}
