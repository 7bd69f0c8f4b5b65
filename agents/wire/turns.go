package wire

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
)

// Who may send and who has to read: callers take turns at both.

// acquire waits for a slot, and for no longer than the call's timeout.
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
		if !callerDeadline.IsZero() && !time.Now().Before(callerDeadline) { // the agent is busy with others, not late
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

// Requests that are sent before the one ahead is answered must fit in what is
// between us and any agent, since one that is writing a large answer does not
// read: of these, Depth take no more than half of a pipe.
const maxSmallRequest = 4 << 10

// maxQuickReply is how long an answer may take for others to be sent ahead. With a
// slow agent nothing is gained by it, and all of them wait behind each other.
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

// refusal says why no request can be sent now. The caller holds mu.
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

// removeWaiting takes f out of waiting. The caller holds mu.
func (c *Client) removeWaiting(f *pendingCall) {
	for i, w := range c.waiting {
		if w == f {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return
		}
	}
}

// release gives a slot back that was granted and not used. The caller holds mu.
func (c *Client) release() {
	c.granted--
	c.grant()
}

// grant gives free slots to those who wait. The caller holds mu.
func (c *Client) grant() {
	for len(c.waiting) > 0 && c.admits(c.waiting[0]) {
		f := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.admit(f)
		f.granted = true
		c.wake(f)
	}
}

// wake wakes f if it sleeps. The caller holds mu.
func (c *Client) wake(f *pendingCall) {
	if f.blocked {
		f.blocked = false
		f.wake <- struct{}{}
	}
}

// wakeReader makes somebody who sleeps read, if nobody does and a reply is
// due. The caller holds mu.
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

// finish ends f. The caller holds mu.
func (c *Client) finish(f *pendingCall, err error) {
	f.done, f.err = true, err
	if err != nil {
		f.reply = nil // one who reads on f's behalf may not have noticed yet
	}
	c.wake(f)
}
