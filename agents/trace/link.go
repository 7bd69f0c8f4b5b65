package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// A link is the connection to the agent, with the time of the next attempt to connect. One
// goroutine at a time uses it: that of the queue of an asynchronous Client, or the call that
// has sem.
type link struct {
	options *Options
	now     func() time.Time
	sem     chan struct{} // has a value while a call of a synchronous Client uses the link
	buf     []byte

	conn  net.Conn // nil without a connection
	since time.Time
	used  bool // a value has been sent over conn

	failures int       // in a row
	retry    time.Time // when to connect again
	lastErr  error
}

func newLink(o *Options, now func() time.Time) *link {
	return &link{options: o, now: now, sem: make(chan struct{}, 1)}
}

// connect connects unless there is a connection. Without one, it fails at once until it is
// time to try again.
func (l *link) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	if l.lastErr != nil && l.now().Before(l.retry) {
		return l.lastErr
	}
	var err error
	for _, addr := range l.options.addrs() {
		var conn net.Conn
		if conn, err = l.dial(ctx, addr); err != nil {
		} else if err = l.greeting(ctx, conn); err != nil {
			conn.Close()
		} else {
			l.conn, l.since, l.used, l.lastErr = conn, l.now(), false, nil
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // which says nothing about the agent
		}
	}
	l.failed(err)
	return err
}

func (l *link) dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.ConnectTimeout)
	defer cancel()
	conn, err := l.options.Dial(ctx, "tcp", addr)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w: %w", ErrTimeout, ErrIPC, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrIPC, err)
}

// greeting reads the agent's first ACK.
func (l *link) greeting(ctx context.Context, conn net.Conn) error {
	n, err := l.ack(ctx, conn)
	switch {
	case err != nil:
		return err
	case n < 0:
		return Error(n)
	case n != tracepdu.Version:
		return fmt.Errorf("%w: version %d", ErrVersion, n)
	}
	return nil
}

// ack reads an ACK. It returns the number in it.
func (l *link) ack(ctx context.Context, conn net.Conn) (int32, error) {
	conn.SetReadDeadline(time.Now().Add(l.options.RequestTimeout))
	defer interrupt(ctx, conn.SetReadDeadline)()
	b := make([]byte, tracepdu.ACKLen)
	if _, err := io.ReadFull(conn, b); err != nil {
		return 0, ipcError(ctx, err)
	}
	n, err := tracepdu.ParseACK(b)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrIPC, err)
	}
	return n, nil
}

// write writes b, which has PDUs.
func (l *link) write(ctx context.Context, b []byte) error {
	l.used = true
	conn := l.conn
	conn.SetWriteDeadline(time.Now().Add(l.options.RequestTimeout))
	defer interrupt(ctx, conn.SetWriteDeadline)()
	if _, err := conn.Write(b); err != nil {
		return ipcError(ctx, err)
	}
	return nil
}

// interrupt sets a deadline that has passed when ctx ends. When the function that it
// returns has returned, the deadline is not set any more: the next call may have its own.
func interrupt(ctx context.Context, setDeadline func(time.Time) error) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(done)
		setDeadline(time.Now())
	})
	return func() {
		if !stopped() {
			<-done
		}
	}
}

// ipcError returns the Error for an error of a connection, or that of ctx.
func ipcError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrIPC, err)
}

// broken closes the connection because of err. If it had been good for some time, the next
// call of connect connects again.
func (l *link) broken(err error) {
	l.close()
	if l.now().Sub(l.since) >= l.options.Reconnect[0] {
		l.tryAgain()
		return
	}
	l.failed(err)
}

// close closes the connection, which may be good.
func (l *link) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// failed notes that there is no connection because of err.
func (l *link) failed(err error) {
	delays := l.options.Reconnect
	l.retry = l.now().Add(delays[min(l.failures, len(delays)-1)])
	l.failures++
	l.lastErr = err
}

// tryAgain lets connect connect at once.
func (l *link) tryAgain() { l.failures, l.lastErr = 0, nil }

// worked notes that the connection is good.
func (l *link) worked() { l.failures = 0 }

// send sends a value and waits until the agent has acknowledged it, for a synchronous Client.
func (l *link) send(ctx context.Context, d tracepdu.Data) error {
	select {
	case l.sem <- struct{}{}:
		defer func() { <-l.sem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := l.connect(ctx); err != nil {
			return err
		}
		used := l.used
		err := l.exchange(ctx, d)
		switch {
		case err == nil:
			l.worked()
			return nil
		case ctx.Err() != nil: // an ACK may still come
			l.close()
			return err
		}
		l.broken(err)
		// The agent may have been started again since the last value. What an old one
		// has counted is lost anyway.
		if !used || !errors.Is(err, ErrIPC) {
			return err
		}
		l.tryAgain()
	}
}

func (l *link) exchange(ctx context.Context, d tracepdu.Data) error {
	d.Sync = true
	l.buf = tracepdu.AppendData(l.buf[:0], int32(os.Getpid()), d)
	if err := l.write(ctx, l.buf); err != nil {
		return err
	}
	n, err := l.ack(ctx, l.conn)
	switch {
	case err != nil:
		return err
	case n < 0:
		return Error(n)
	case n != int32(d.Kind):
		return fmt.Errorf("%w: ACK %d for a value of type %d", ErrIPC, n, d.Kind)
	}
	return nil
}

// end waits for a call in progress and closes the connection for ever.
func (l *link) end() error {
	l.sem <- struct{}{}
	defer func() { <-l.sem }()
	l.close()
	l.failed(ErrClosed) // for a call that waited for its turn
	l.retry = l.now().Add(1 << 62 * time.Nanosecond)
	return nil
}
