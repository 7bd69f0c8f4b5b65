package wire

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
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

// background reads and discards the replies that a late agent owes. If the agent
// is not ready, it waits until the agent says that it is.
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
	err := c.setReadDeadline(time.Time{})
	var b []byte
	// NOTREADY was either the reply to a request, or was sent before that request
	// arrived. In the first case one reply less is due than owed says. So the last
	// one is awaited for readyGrace only.
	replyUncertain, inGrace := s == transport.NotReady, false
	for err == nil && (s == transport.NotReady || len(owed) > 0) {
		if lastUncertain := replyUncertain && s == transport.Late && len(owed) == 1; lastUncertain && !inGrace {
			inGrace = true
			err = c.setReadDeadline(time.Now().Add(readyGrace))
			continue
		}
		b, err = c.read(b[:0])
		if inGrace && errors.Is(err, os.ErrDeadlineExceeded) && !c.inPDU() {
			err = nil
			break
		}
		if err != nil {
			break
		}
		_, t, _ := pdu.Header(b)
		switch code := errorCode(b); {
		case code == pdu.ErrnoReady:
			s = transport.Late // until the owed replies have been read
		case code == pdu.ErrnoNotReady && s != transport.NotReady:
			s, replyUncertain, inGrace = transport.NotReady, true, false
			err = c.setReadDeadline(time.Time{})
			c.mu.Lock()
			c.maxDepth, c.depth = 1, 1
			c.state.Store(int32(s))
			c.mu.Unlock()
			c.notifyState(s)
		case len(owed) > 0 && (t == owed[0] || t == pdu.TypeError):
			owed = owed[1:]
		default:
			err = fmt.Errorf("%v PDU from an agent that is %v: %w", t, s, pdu.ErrnoIPC)
		}
	}
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
