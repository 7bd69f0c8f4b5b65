package wire

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
)

// This file decides which caller may send and which one reads the stream.

// acquire waits for a slot, for the call's timeout at most.
func (c *Client) acquire(call *transport.Call) (*pendingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(); err != nil {
		return nil, err
	}
	f := c.newCall(call)
	if len(c.waiting) == 0 && c.admits(f) {
		c.admit(f)
		return f, nil
	}
	c.waiting = append(c.waiting, f)
	callerDeadline := deadlineAfter(f.call.Timeout)
	var expired <-chan time.Time
	if t := f.call.Timeout; t > 0 {
		timer := time.NewTimer(t)
		defer timer.Stop()
		expired = timer.C
	}
	for !f.granted && !f.done {
		if !callerDeadline.IsZero() && !time.Now().Before(callerDeadline) { // the agent is busy with other requests, not late
			c.removeWaiting(f)
			c.recycle(f)
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
// with a slow agent: each waits for all those before it.
const maxQuickReply = 10 * time.Millisecond

// admits reports whether f may be sent now. The caller holds mu.
func (c *Client) admits(f *pendingCall) bool {
	n := len(c.inflight) + c.granted
	return n == 0 || n < c.opt.Depth && f.smallRequest && !c.exclusive && !c.lastReplySlow && !c.everNotReady
}

// admit gives f a slot. The caller holds mu.
func (c *Client) admit(f *pendingCall) {
	c.granted++
	c.exclusive = !f.smallRequest
}

// refusal returns the reason why no request can be sent now, or nil. The caller
// holds mu.
func (c *Client) refusal() error {
	switch {
	case c.err != nil:
		return c.err
	case c.State() == Late:
		return transport.ErrLate
	case c.State() == NotReady:
		return transport.ErrNotReady
	}
	return nil
}

// removeWaiting removes f from waiting. The caller holds mu.
func (c *Client) removeWaiting(f *pendingCall) {
	for i, w := range c.waiting {
		if w == f {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return
		}
	}
}

// release gives back a slot that was granted but not used. The caller holds mu.
func (c *Client) release() {
	c.granted--
	c.grant()
}

// grant gives the free slots to the first of waiting. The caller holds mu.
func (c *Client) grant() {
	for len(c.waiting) > 0 && c.admits(c.waiting[0]) {
		f := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.admit(f)
		f.granted = true
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
	for _, list := range [][]*pendingCall{c.inflight, c.waiting} {
		for _, f := range list {
			if f.blocked {
				c.wake(f)
				return
			}
		}
	}
}

// finish marks f as done, with err or with its reply. The caller holds mu.
func (c *Client) finish(f *pendingCall, err error) {
	f.done, f.err = true, err
	if err != nil {
		f.reply = nil // another goroutine may still be reading into it
	}
	c.wake(f)
}
