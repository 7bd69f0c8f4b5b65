package session

import (
	"errors"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// errnoOf is the code that tells a client of err.
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
