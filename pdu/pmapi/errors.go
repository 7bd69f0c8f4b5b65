package pmapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrClosed is the error of a Client that was closed.
var ErrClosed = errors.New("client is closed")

// ErrReply is what a ConnError wraps if pmcd sent something that is not a reply to the
// request.
var ErrReply = errors.New("unexpected reply")

// A ConnError says that there is no connection to pmcd, or that the connection was closed
// while a request was on its way: by pmcd, by a failure of the network, because the context of
// the request was cancelled or its time was up, or because what came back was not a reply.
// After it, a Client without [Options.Reconnect] has no connection.
//
// It wraps a pdu.Errno if pmcd refused the connection or the login. Otherwise the answers of
// pmcd are errors that wrap a [pdu.Errno] and are no ConnError: the connection can be used
// further.
type ConnError struct {
	Spec Spec
	Err  error // such as io.EOF or context.Canceled
}

func (e *ConnError) Error() string { return "pmcd at " + e.Spec.String() + ": " + e.Err.Error() }

func (e *ConnError) Unwrap() error { return e.Err }

// An ItemsError is the error of a request for several items some of which failed.
type ItemsError struct {
	Errs []error // one for each item of the request, in order; nil for those that did not fail
}

// Error returns the texts of the first few errors.
func (e *ItemsError) Error() string {
	var b strings.Builder
	n := 0
	for _, err := range e.Errs {
		if err == nil {
			continue
		}
		if n++; n == 4 {
			b.WriteString("; ...")
			break
		}
		if n > 1 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap returns the errors.
func (e *ItemsError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errs {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// itemsError returns errs as one error, or nil if there is none in it. If there is one item
// only, its error is returned as it is.
func itemsError(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	for _, err := range errs {
		if err != nil {
			return &ItemsError{errs}
		}
	}
	return nil
}

// cause returns the error of ctx in place of one that it caused.
func cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The deadline of ctx or Options.Timeout, which the socket noticed first.
		return context.DeadlineExceeded
	}
	return err
}

func badReply(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrReply, fmt.Sprintf(format, args...))
}

func isConnError(err error) bool {
	var lost *ConnError
	return errors.As(err, &lost)
}
