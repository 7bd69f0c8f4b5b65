package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// StartContext returns a context for an OpenFunc, which ends after the time
// that an agent has to start (-q). Its cause says so in words for an admin.
func StartContext(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, most, noAnswer(most))
}

// A noAnswer is that an agent had this time to start, and said nothing.
type noAnswer time.Duration

func (t noAnswer) Error() string {
	text := time.Duration(t).String()
	if time.Duration(t)%time.Second == 0 {
		text = fmt.Sprintf("%d s", time.Duration(t)/time.Second)
	}
	return "no answer in " + text + " (-q)"
}

// Unwrap has it be the error of such a context, too.
func (noAnswer) Unwrap() error { return context.DeadlineExceeded }

// What errors of Go's packages say, and what an admin is told.
var plainWords = []struct {
	err  error
	text string
}{
	{io.ErrUnexpectedEOF, closedConnection}, // before io.EOF, which is part of its text
	{io.EOF, closedConnection},
	{syscall.EPIPE, closedConnection},
	{syscall.ECONNRESET, closedConnection},
	{os.ErrDeadlineExceeded, "no answer in time"},
	{context.DeadlineExceeded, "no answer in time"},
	{context.Canceled, "given up"},
	{net.ErrClosed, "the connection is closed"},
	{os.ErrClosed, "the connection is closed"},
}

const closedConnection = "it closed the connection"

// Reason is why something about an agent failed, in words for an admin: the text
// of err, but for what packages of Go say in their own.
func Reason(err error) string {
	text := err.Error()
	replace := func(old error, words string) { text = strings.ReplaceAll(text, old.Error(), words) }
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		switch {
		case e.Op == "dial" && e.Addr != nil:
			replace(e, fmt.Sprintf("cannot connect to %v: %v", e.Addr, cause(e)))
		default: // of a connection that there is: what it is called says nothing
			replace(e, cause(e).Error())
		}
	}
	// "read |0: " is about a pipe. Other paths are those of files.
	if e := (*fs.PathError)(nil); errors.As(err, &e) && strings.HasPrefix(e.Path, "|") {
		replace(e, cause(e).Error())
	}
	if errors.As(err, new(noAnswer)) {
		return text
	}
	for _, w := range plainWords {
		if errors.Is(err, w.err) {
			replace(w.err, w.text)
		}
	}
	return text
}

// cause is the innermost error of err.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if e := (*os.SyscallError)(nil); errors.As(err, &e) {
			inner = e.Err
		}
		if inner == nil || inner == err {
			return err
		}
		err = inner
	}
}
