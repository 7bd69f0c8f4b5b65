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
	PID() int
	Done() <-chan struct{}      // closed when it has ended
	Status() syscall.WaitStatus // how it ended, once Done is closed
	// Stop ends it and all that it has started, in a time that is bounded and
	// short when ctx ends. It is called once for each Process.
	Stop(ctx context.Context)
	// StderrTail returns the last lines of its standard error output, after Stop.
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
