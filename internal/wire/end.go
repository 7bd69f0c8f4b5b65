package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// This file ends a Client and reports the request that is left unanswered.

// PeerGone tells the Client that the agent's process has ended, because of err.
// The replies that it wrote before can still be read. No more will come, even if
// another process, such as a child of the agent, has the stream open.
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

// setReadDeadline sets the read deadline; the zero time means none. If the agent's
// process has ended, the deadline is readyGrace from now at most.
func (c *Client) setReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setReadDeadlineLocked(t)
}

// setReadDeadlineLocked is setReadDeadline for a caller that holds mu.
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

// CheckIdle implements transport.IdleChecker. If the stream is an idle socket, it
// checks whether the agent has closed it, and ends the Client if so. It does not
// wait, and reads nothing from the stream.
func (c *Client) CheckIdle() {
	c.mu.Lock()
	idle := len(c.inflight) == 0 && !c.reading
	c.mu.Unlock()
	if !idle {
		return
	}
	var gone error
	c.raw.Control(func(fd uintptr) { // Control fails only if c has ended
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

// fail ends the Client because of err, unless it has ended before. It returns the
// error that ended the Client.
func (c *Client) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failLocked(err)
}

// failLocked is fail for a caller that holds mu.
func (c *Client) failLocked(err error) error {
	if c.err != nil {
		return c.err
	}
	switch {
	case c.exitErr == nil, err == c.exitErr, errors.Is(err, transport.ErrClosed):
	case errors.Is(err, os.ErrDeadlineExceeded): // set by setReadDeadline because the process has ended
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
	c.inflight = nil
	c.refuseWaiting(err)
	c.conn.Close() // ends a read or write in progress
	return err
}

// Close implements transport.Transport. It waits for the background goroutine, if
// there is one.
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

// pending describes f for Pending.
func (f *pendingCall) pending() transport.Pending {
	return transport.Pending{Type: requestType(f), Client: f.call.Origin.Client, Since: f.began}
}
