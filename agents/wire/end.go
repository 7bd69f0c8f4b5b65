package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
)

// How a Client ends, and what it leaves unanswered.

// PeerGone says that the process at the other end has ended because of err.
// What it wrote before can still be read; there will be no more, even if
// another process has the stream open.
func (c *Client) PeerGone(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exitErr = err
	if len(c.inflight) == 0 && !c.reading {
		c.failLocked(err)
	} else if c.err == nil {
		c.setReadDeadlineLocked(time.Time{})
	}
}

// setReadDeadline sets the deadline for reading, zero for none. If the peer has gone it
// is soon.
func (c *Client) setReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setReadDeadlineLocked(t)
}

func (c *Client) setReadDeadlineLocked(t time.Time) error {
	if c.exitErr != nil {
		if soon := time.Now().Add(readyGrace); t.IsZero() || soon.Before(t) {
			t = soon
		}
	}
	c.readDeadline = t
	if c.direct {
		return nil
	}
	return c.conn.SetReadDeadline(t)
}

// CheckIdle implements transport.IdleChecker: it looks whether the peer of a
// socket that is not being read has closed it, and ends the Client if so. It does
// not wait, and takes nothing from the stream.
func (c *Client) CheckIdle() {
	c.mu.Lock()
	idle := len(c.inflight) == 0 && !c.reading
	c.mu.Unlock()
	if !idle {
		return
	}
	var gone error
	c.raw.Control(func(fd uintptr) { // an error of its own says that c has ended
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == nil && n == 0:
			gone = io.EOF
		case err != nil && err != syscall.EAGAIN && err != syscall.EINTR && err != syscall.ENOTSOCK:
			gone = err
		}
	})
	if gone != nil {
		c.PeerGone(gone)
	}
}

// fail ends the Client because of err, unless it has ended before, and
// returns why it has.
func (c *Client) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failLocked(err)
}

func (c *Client) failLocked(err error) error {
	if c.err != nil {
		return c.err
	}
	switch {
	case c.exitErr == nil, err == c.exitErr, err == transport.ErrClosed:
	case errors.Is(err, os.ErrDeadlineExceeded): // ours, see readBy
		err = c.exitErr
	default:
		err = fmt.Errorf("%w (%w)", err, c.exitErr)
	}
	c.err = err
	if len(c.inflight) > 0 {
		c.lastPending = c.inflight[0].pending()
	}
	close(c.done)
	for _, f := range c.inflight {
		c.finish(f, err)
	}
	for _, f := range c.waiting {
		c.finish(f, err)
	}
	c.inflight, c.waiting = nil, nil
	c.conn.Close() // ends a read or write in progress
	return err
}

// Close implements transport.Transport. It waits for the background goroutine, if
// any.
func (c *Client) Close() error {
	c.fail(transport.ErrClosed)
	c.tasks.Wait()
	return nil
}

// Pending implements transport.Transport.
func (c *Client) Pending() (transport.Pending, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight) > 0 {
		return c.inflight[0].pending(), true
	}
	return c.lastPending, c.lastPending.Type != 0
}

func (f *pendingCall) pending() transport.Pending {
	return transport.Pending{Type: requestType(f), Client: f.call.Origin.Client, Since: f.began}
}
