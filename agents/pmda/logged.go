package pmda

import (
	"fmt"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A loggedError is what was last logged of one thing that has failed.
type loggedError struct {
	text string // "" if it has not failed since
	when time.Time
}

// Requests are as frequent as clients like, and so are their errors: some say
// something else each time, a port for example, and metrics may come and go.
const (
	logPause  = time.Minute // between two lines about the same thing
	maxLogged = 1000        // things that are remembered
)

// errno is what a client sees of err. If it says nothing the text is logged.
func (a *agent) errno(what, of string, err error) pdu.Errno {
	code := pdu.ErrnoOf(err)
	if code == pdu.ErrnoGeneric && err != error(code) {
		a.warn(what+of, err)
	}
	return code
}

// warn logs err, but not each time that the same thing fails.
func (a *agent) warn(what string, err error) {
	text, now := err.Error(), time.Now()
	if last, ok := a.logged[what]; ok && (last.text == text || now.Sub(last.when) < logPause) {
		return
	}
	if len(a.logged) >= maxLogged {
		clear(a.logged)
	}
	a.logged[what] = loggedError{text, now}
	a.log.Warn(fmt.Sprintf("%s: %s: %s", a.conf.Name, what, text))
}

// clearError says that something has not failed. There is no need to if nothing has.
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
