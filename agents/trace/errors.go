package trace

import (
	"errors"
	"fmt"
)

// An Error is an error of libpcp_trace, with its code. Errors of this package wrap one; see
// errors.Is. Errors of a context, and ErrClosed, are the exceptions.
type Error int

// The errors of libpcp_trace. Those of tags in progress are for completeness: this package
// returns only ErrNoProgress.
const (
	ErrTagName     Error = -12000 // a tag is empty or has a NUL in it
	ErrInProgress  Error = -12001 // a transaction is in progress
	ErrNoProgress  Error = -12002 // a Transaction has ended already
	ErrNoSuchTag   Error = -12003 // a transaction has not begun
	ErrTagType     Error = -12004 // a tag has another type
	ErrTagLength   Error = -12005 // a tag is too long
	ErrIPC         Error = -12006 // there is no connection to the agent, or it has broken
	ErrEnvironment Error = -12007 // an environment variable has a wrong value
	ErrTimeout     Error = -12008 // the agent has not answered in time
	ErrVersion     Error = -12009 // the agent has another version of the protocol
	ErrPermission  Error = -12010 // the agent does not allow this host to connect
	ErrConnLimit   Error = -12011 // the agent has too many connections
)

var texts = map[Error]string{
	ErrTagName:     "invalid tag name",
	ErrInProgress:  "transaction is already in progress",
	ErrNoProgress:  "transaction is not in progress",
	ErrNoSuchTag:   "no such tag",
	ErrTagType:     "tag is in use with another type",
	ErrTagLength:   "tag name is too long",
	ErrIPC:         "no connection to the trace agent",
	ErrEnvironment: "invalid value in environment",
	ErrTimeout:     "timeout waiting for the trace agent",
	ErrVersion:     "trace agent has another version of the protocol",
	ErrPermission:  "trace agent denies the connection",
	ErrConnLimit:   "trace agent has reached its connection limit",
}

// Error returns a text for e.
func (e Error) Error() string {
	if s := texts[e]; s != "" {
		return "trace: " + s
	}
	return fmt.Sprintf("trace: error %d", int(e))
}

// ErrClosed is the error of a Client after Close.
var ErrClosed = errors.New("trace: the client is closed")

// Errors of asynchronous calls, which do not allocate.
var (
	errFull = fmt.Errorf("%w: the queue is full", ErrIPC)
	errDown = fmt.Errorf("%w: it is tried again later", ErrIPC)
)
