package daemon

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// errnoOf is the code that tells a client of err. It is the only place where
// errors become codes.
func errnoOf(err error) pdu.Errno {
	var code pdu.Errno
	var perr *pdu.ParseError
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.Is(err, pdu.ErrTooLong):
		return pdu.ErrnoTooBig
	case errors.Is(err, agents.ErrLate), errors.Is(err, agents.ErrNotReady):
		return pdu.ErrnoAgain
	case errors.As(err, &code):
		return code
	case errors.As(err, &perr):
		return pdu.ErrnoIPC
	case errors.Is(err, fs.ErrPermission):
		return pdu.ErrnoPermission
	case errors.As(err, &errno):
		return pdu.Errno(-int32(errno))
	}
	return pdu.ErrnoGeneric
}
