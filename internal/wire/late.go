package wire

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// This file handles agents that are late or not ready, and their recovery.

// readyGrace is how long an agent that is ready again has for the reply to a
// request that it may have received before it was not ready. An agent whose
// process has ended has as long for the replies that it wrote.
const readyGrace = 100 * time.Millisecond

// markLate makes the agent late, and returns the error of all its calls. The caller holds
// mu, and no goroutine is reading.
func (c *Client) markLate() error {
	if c.err != nil {
		return c.err
	}
	if len(c.inflight) > 0 {
		c.lastPending = c.inflight[0].pending()
	}
	c.startRecovery(transport.Late)
	return transport.ErrLate
}

// startRecovery sets the state to s, fails all calls of inflight, and starts a background
// goroutine that reads the stream until the agent is ready. The caller holds mu, and no
// goroutine is reading.
func (c *Client) startRecovery(s transport.State) {
	err := transport.ErrLate
	if s == transport.NotReady {
		err = transport.ErrNotReady
	}
	var owed []pdu.Type
	for _, f := range c.inflight {
		owed = f.appendDue(owed)
		c.finish(f, err)
	}
	c.inflight = slices.Delete(c.inflight, 0, len(c.inflight))
	c.refuseWaiting(err)
	c.reading = true
	if s == transport.NotReady {
		c.maxDepth, c.depth = 1, 1
	}
	c.state.Store(int32(s))
	c.tasks.Add(1)
	go c.background(s, owed)
}

// background runs a recovery, and makes the agent ready when that is over.
func (c *Client) background(s transport.State, owed []pdu.Type) {
	defer c.tasks.Done()
	c.notifyState(s)
	writeDone := make(chan error, 1)
	go func() { // beside the reads: an agent that is blocked in a write does not read
		err := c.finishWrite()
		if err != nil {
			c.fail(err)
		}
		writeDone <- err
	}()
	c.setDirect(false)
	r := recovery{c: c, state: s, owed: owed, uncertain: s == transport.NotReady}
	err := r.run()
	if err != nil {
		c.fail(err) // ends the write, too
	}
	if writeErr := <-writeDone; err != nil || writeErr != nil {
		return
	}
	c.notifyState(transport.Ready)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	c.lastPending = transport.Pending{}
	c.state.Store(int32(transport.Ready))
	if err := c.unsolicited(); err != nil {
		c.failLocked(err)
	} else if c.exitErr != nil {
		c.failLocked(c.exitErr)
	} else if c.refusal() == nil {
		c.flushLocked()
	}
}

// A recovery reads and discards the replies that a late agent owes. If the agent is not
// ready, it waits until the agent says that it is.
type recovery struct {
	c     *Client
	state transport.State // Late or NotReady
	owed  []pdu.Type
	// uncertain is set by NOTREADY, which was either the reply to a request, or was sent before
	// that request arrived. In the first case one reply less is due than owed says.
	uncertain bool
}

// run returns nil when the agent is ready and owes no reply.
func (r *recovery) run() error {
	err := r.c.setReadDeadline(time.Time{})
	var b []byte
	for err == nil && (r.state == transport.NotReady || len(r.owed) > 0) {
		b, err = r.c.read(b[:0])
		switch {
		case err == nil:
			err = r.received(b)
		case r.lastUncertain() && errors.Is(err, os.ErrDeadlineExceeded) && !r.c.inPDU():
			return nil
		}
	}
	return err
}

// lastUncertain reports whether all that is awaited is a reply that may not come. It is
// awaited for readyGrace only.
func (r *recovery) lastUncertain() bool {
	return r.uncertain && r.state == transport.Late && len(r.owed) == 1
}

// received is called for each PDU of the agent.
func (r *recovery) received(b []byte) error {
	was := r.lastUncertain()
	_, t, _ := pdu.Header(b)
	switch code := errorCode(b); {
	case code == pdu.ErrnoReady:
		r.state = transport.Late // until the owed replies have been read
	case code == pdu.ErrnoNotReady && r.state != transport.NotReady:
		return r.notReady()
	case len(r.owed) > 0 && (t == r.owed[0] || t == pdu.TypeError):
		r.owed = r.owed[1:]
	default:
		return fmt.Errorf("%v PDU from an agent that is %v: %w", t, r.state, pdu.ErrnoIPC)
	}
	if r.lastUncertain() && !was {
		return r.c.setReadDeadline(time.Now().Add(readyGrace))
	}
	return nil
}

// notReady is called when the agent says NOTREADY again.
func (r *recovery) notReady() error {
	r.state, r.uncertain = transport.NotReady, true
	err := r.c.setReadDeadline(time.Time{})
	r.c.mu.Lock()
	r.c.maxDepth, r.c.depth = 1, 1
	r.c.state.Store(int32(r.state))
	r.c.mu.Unlock()
	r.c.notifyState(r.state)
	return err
}

// finishWrite writes the backlog, without a deadline.
func (c *Client) finishWrite() error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if len(c.backlog) == 0 {
		return nil
	}
	_, err := c.conn.Write(c.backlog)
	c.backlog = c.backlog[:0]
	return err
}

// notifyState calls OnState.
func (c *Client) notifyState(s transport.State) {
	if c.opt.OnState != nil {
		c.opt.OnState(s)
	}
}
