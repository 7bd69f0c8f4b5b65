package pmda

import (
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A loggedError is the last error of an operation that was logged.
type loggedError struct {
	text string // "" if the operation has succeeded since
	when time.Time
}

// Clients decide how often requests, and so their errors, occur. The text of an
// error may be different each time, for example if it has a port number, and the
// metrics of a Subtree change. So both the rate of log lines and the memory for
// them are limited.
const (
	logPause  = time.Minute // minimum between two lines about an operation
	maxLogged = 1000        // operations that are remembered
)

// errno returns the code of err for the client. It logs an error without a code, unless
// pmcd no longer waits for the reply, which may be the reason.
func (a *agent) errno(what, of string, err error) pdu.Errno {
	code := pdu.ErrnoOf(err)
	if code == pdu.ErrnoGeneric && err != error(code) && a.req.ended == nil { // an error that wraps the code has a text
		a.warn(what+of, err)
	}
	return code
}

// warn logs err unless the last line about the same operation has the same text
// or is recent.
func (a *agent) warn(what string, err error) {
	text, now := err.Error(), time.Now()
	if last, ok := a.logged[what]; ok && (last.text == text || now.Sub(last.when) < logPause) {
		return
	}
	if len(a.logged) >= maxLogged {
		clear(a.logged)
	}
	a.logged[what] = loggedError{text, now}
	a.log.Warn("{agent}: {operation}: {error}", "agent", a.conf.Name, "operation", what, "error", err)
}

// clearError is called when an operation succeeds, so that its next error is
// logged even if it has the same text. It need not be called if a.logged is empty.
func (a *agent) clearError(what, of string) {
	what += of
	switch last, ok := a.logged[what]; {
	case !ok:
	case time.Since(last.when) < logPause:
		a.logged[what] = loggedError{"", last.when}
	default:
		delete(a.logged, what)
	}
}
