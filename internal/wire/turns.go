package wire

import (
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// This file decides which caller may send and which one reads the stream.

// acquire waits until call is admitted, for its timeout at most. Calls that wait take turns
// by their Keys. Calls that are admitted at the same time may be sent in any order.
func (c *Client) acquire(call *transport.Call) (*pendingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(); err != nil {
		return nil, err
	}
	f := c.newCall(call)
	if c.waiting.Len() == 0 && c.admits(f) {
		c.admit(f)
		return f, nil
	}
	c.waiting.Push(&f.item, call.Key)
	c.grant() // f may come before the others, and be small enough to be sent now
	c.mu.Unlock()
	call.BeforeWait(false)
	c.mu.Lock()
	callerDeadline := deadlineAfter(f.call.Timeout)
	var expired <-chan time.Time
	if t := f.call.Timeout; t > 0 {
		timer := time.NewTimer(t)
		defer timer.Stop()
		expired = timer.C
	}
	for !f.admitted && !f.done {
		if !callerDeadline.IsZero() && !time.Now().Before(callerDeadline) { // the agent is busy with other requests, not late
			c.waiting.Remove(&f.item)
			c.recycle(f)
			c.grant() // f may have been first, and too large to be sent together with others
			c.wakeReader()
			return nil, transport.ErrLate
		}
		if !c.reading && len(c.inflight) > 0 {
			c.readReply(nil, nil, callerDeadline)
			continue
		}
		f.blocked = true
		c.mu.Unlock()
		select {
		case <-f.wake:
		case <-expired:
			expired = nil
		}
		c.mu.Lock()
		f.blocked = false
	}
	if err := f.err; err != nil {
		c.recycle(f)
		return nil, err
	}
	return f, nil
}

// maxSmallRequest is the size, in bytes, of the largest request that may be in
// flight together with others. An agent that is writing a large reply does not
// read, so such requests must fit in the buffer of the pipe or socket. Depth
// requests of this size take half of a pipe at most.
const maxSmallRequest = 4 << 10

// maxQuickReply is the longest time in which an agent may answer a request to get
// the next ones before it has answered. Several requests in flight gain nothing
// with a slow agent: each waits for all those before it. After a slow reply, each
// quick one permits one request more: requests that are quick and others that are
// slow may alternate, and a quick one must not wait for many slow ones.
const maxQuickReply = 10 * time.Millisecond

// admits reports whether f may be sent now. The caller holds mu.
func (c *Client) admits(f *pendingCall) bool {
	n := len(c.inflight) + c.admitted
	return n == 0 || n < c.depth && f.smallRequest && !c.exclusive
}

// admit lets f be sent. The caller holds mu.
func (c *Client) admit(f *pendingCall) {
	c.admitted++
	c.exclusive = !f.smallRequest
}

// refusal returns the reason why no request can be sent now, or nil. The caller
// holds mu.
func (c *Client) refusal() error {
	switch {
	case c.err != nil:
		return c.err
	case c.State() == transport.Late:
		return transport.ErrLate
	case c.State() == transport.NotReady:
		return transport.ErrNotReady
	}
	return nil
}

// release undoes admit for a call that is not sent. The caller holds mu.
func (c *Client) release() {
	c.admitted--
	c.grant()
}

// grant admits the waiting calls whose turn it is, as far as it can. The caller holds mu.
func (c *Client) grant() {
	for c.waiting.Len() > 0 && c.admits(c.waiting.Peek().Value) {
		f := c.waiting.Pop().Value
		c.admit(f)
		f.admitted = true
		c.wake(f)
	}
}

// wake wakes the caller of f if it is blocked. The caller of wake holds mu.
func (c *Client) wake(f *pendingCall) {
	if f.blocked {
		f.blocked = false
		f.wake <- struct{}{}
	}
}

// wakeReader wakes one blocked caller so that it reads the stream, if a reply is
// due and no goroutine reads. The caller holds mu.
func (c *Client) wakeReader() {
	if c.reading || len(c.inflight) == 0 {
		return
	}
	for _, f := range c.inflight {
		if f.blocked {
			c.wake(f)
			return
		}
	}
	for f := range c.waiting.All() {
		if f.blocked {
			c.wake(f)
			return
		}
	}
}

// refuseWaiting ends the wait of all calls to be admitted because of err. The caller
// holds mu.
func (c *Client) refuseWaiting(err error) {
	for c.waiting.Len() > 0 {
		c.finish(c.waiting.Pop().Value, err)
	}
}

// Waiting returns how many Calls wait for their turn.
func (c *Client) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.Len()
}

// finish marks f as done, with err or with its reply. The caller holds mu.
func (c *Client) finish(f *pendingCall, err error) {
	f.done, f.err = true, err
	if err != nil {
		f.reply = nil // another goroutine may still be reading into it
	}
	c.wake(f)
}
