package transport

import (
	"context"
	"syscall"
)

// A Conn is a connection to an agent that has just been opened.
type Conn struct {
	Transport
	Process Process // of the agent; nil if pmcd did not start it
	In, Out int     // descriptors for replies and requests, for messages; -1 if there are none

	// Interface is that of a DSO (PMDA_INTERFACE_7 is 7); 0 for other agents.
	Interface int

	// Changed, if not nil, is called at each reload. It returns an error once for
	// each change of the agent's file on disk that the running agent does not have.
	// The error says how to put the change into effect.
	Changed func() error
}

// A Process is an agent that pmcd started.
type Process interface {
	// PID returns the process id.
	PID() int
	// Done returns a channel that is closed when the process has ended.
	Done() <-chan struct{}
	// Status returns how the process ended. It is valid once Done is closed.
	Status() syscall.WaitStatus
	// Stop ends the process and the processes that it has started. It returns in a
	// few seconds, and soon after the end of ctx. It is called once.
	Stop(ctx context.Context)
	// StderrTail returns the last lines of the standard error output. It is called
	// after Stop.
	StderrTail() []string
}

// An OpenError is an error of opening a Conn, with the end of what the agent wrote
// to its standard error output.
type OpenError struct {
	Err        error
	StderrTail []string
}

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }
