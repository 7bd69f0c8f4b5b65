package wire

import (
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A pendingCall is a Call that waits to be admitted or for its reply. It is the Reply
// that Send returns.
type pendingCall struct {
	client       *Client
	call         *transport.Call
	wake         chan struct{} // has room for one
	want         pdu.Type      // the type of the reply
	smallRequest bool          // may be in flight together with others

	// Guarded by Client.mu.
	due      int                          // how many replies are still to come
	began    time.Time                    // when it became the first of inflight
	deadline time.Time                    // for the reply; set with began
	answered time.Time                    // when the reply was read
	item     fairqueue.Item[*pendingCall] // in Client.waiting
	admitted bool
	blocked  bool // the caller waits for wake
	done     bool // err or reply is set
	err      error
	reply    []byte // what was read and not yet returned by Recv; its memory is reused
}

const (
	// maxFree is how many pendingCalls are kept for reuse.
	maxFree = 32
	// maxFreeReply is the size of the largest buffer kept for reuse, in bytes.
	maxFreeReply = 64 << 10
)

// newCall returns a pendingCall for call. The caller holds mu.
func (c *Client) newCall(call *transport.Call) *pendingCall {
	var f *pendingCall
	if last := len(c.freeCalls) - 1; last >= 0 {
		f = c.freeCalls[last]
		c.freeCalls = c.freeCalls[:last]
	} else {
		f = &pendingCall{client: c, wake: make(chan struct{}, 1)}
	}
	n, t, _ := pdu.Header(call.Req)
	f.call, f.want, f.due, f.item.Value = call, transport.ReplyType(t), 1, f
	for rest := call.Req; n >= pdu.HeaderLen && int(n) < len(rest); n, _, _ = pdu.Header(rest) {
		rest = rest[n:]
		f.due++
	}
	f.smallRequest = len(call.Req) <= maxSmallRequest && (call.Profile == nil || !call.Profile.HasInDoms())
	return f
}

// recycle keeps f, which is finished, for reuse. The caller holds mu.
func (c *Client) recycle(f *pendingCall) {
	if len(c.freeCalls) >= maxFree {
		return
	}
	reply := f.reply[:0]
	if cap(reply) > maxFreeReply {
		reply = nil
	}
	select {
	case <-f.wake:
	default:
	}
	*f = pendingCall{client: c, wake: f.wake, reply: reply}
	c.freeCalls = append(c.freeCalls, f)
}

// Recv implements transport.Reply.
func (f *pendingCall) Recv(dst []byte) ([]byte, error) {
	c, call := f.client, f.call
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.recycle(f)
	if !f.done {
		c.mu.Unlock()
		call.BeforeWait(true)
		c.mu.Lock()
	}
	for !f.done {
		if !c.reading {
			if b := c.readReply(f, dst, time.Time{}); b != nil {
				call.Began, call.Done = f.began, f.answered
				return b, nil
			}
			continue
		}
		f.blocked = true
		c.mu.Unlock()
		<-f.wake
		c.mu.Lock()
		f.blocked = false
	}
	if f.err != nil {
		return dst, f.err
	}
	call.Began, call.Done = f.began, f.answered
	return append(dst, f.reply...), nil
}

// appendDue appends the types of the replies to f that are still to come.
func (f *pendingCall) appendDue(owed []pdu.Type) []pdu.Type {
	for range f.due {
		owed = append(owed, f.want)
	}
	return owed
}

// startTimeout sets the deadline for the reply, counted from now.
func (f *pendingCall) startTimeout(now time.Time) {
	f.began, f.deadline = now, time.Time{}
	if t := f.call.Timeout; t > 0 {
		f.deadline = now.Add(t)
	}
}
