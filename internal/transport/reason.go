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

// StartContext returns the context for opening a Conn. It ends after timeout, the
// time that an agent may take to start (pmcd -q). The text of its cause is for the
// log.
func StartContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, noAnswer(timeout))
}

// A noAnswer is the error for an agent that has not started within this time.
type noAnswer time.Duration

func (t noAnswer) Error() string {
	text := time.Duration(t).String()
	if time.Duration(t)%time.Second == 0 {
		text = fmt.Sprintf("%d s", time.Duration(t)/time.Second)
	}
	return "no answer in " + text + " (-q)"
}

// Unwrap returns the error that a context has without a cause.
func (noAnswer) Unwrap() error { return context.DeadlineExceeded }

// plainWords are the texts for errors of Go's packages in log lines.
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

// Reason returns the text of err for a log line. It replaces the words of Go's
// packages, such as EOF, by those of an admin, such as "it closed the connection".
func Reason(err error) string {
	text := err.Error()
	replace := func(old error, words string) { text = strings.ReplaceAll(text, old.Error(), words) }
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		switch {
		case e.Op == "dial" && e.Addr != nil:
			replace(e, fmt.Sprintf("cannot connect to %v: %v", e.Addr, cause(e)))
		default: // the addresses of an established connection do not help an admin
			replace(e, cause(e).Error())
		}
	}
	// "read |0: " is about a pipe. Other paths are names of files.
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

// cause returns the innermost error of err.
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
