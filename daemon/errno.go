package daemon

import (
	"errors"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// errnoOf is the code that tells a client of err.
func errnoOf(err error) pdu.Errno {
	if errors.Is(err, agents.ErrLate) || errors.Is(err, agents.ErrNotReady) {
		return pdu.ErrnoAgain
	}
	return pdu.ErrnoOf(err)
}
