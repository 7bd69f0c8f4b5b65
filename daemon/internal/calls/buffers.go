package calls

import (
	"sync"

	"github.com/gopcp/pmcd/internal/relay"
)

const (
	// MaxNormal is the most memory that a Caller has in buffers, in bytes, if it is used by
	// clients with small requests.
	MaxNormal = 16 << 10

	// MaxKept is the most memory that a buffer may have that is used again, enough for ten
	// thousand values.
	MaxKept = 1 << 20
)

// Clear forgets what belongs to a session, and frees buffers that are too large to be kept. It
// returns how many bytes the others have.
func (c *Caller) Clear() (bytes int) {
	c.Config, c.Client, c.Slot, c.Coroutine, c.Routes, c.pooled = nil, nil, nil, nil, nil, 0
	c.call.Key, c.call.Waiter = nil, nil
	if c.Result.Cap() > MaxKept {
		c.Result = relay.ResultWriter{}
	}
	for _, b := range []*[]byte{&c.Out, &c.Req, &c.Ans} {
		if cap(*b) > MaxKept {
			*b = nil
		}
	}
	for i := range c.Subs[:cap(c.Subs)] {
		p := &c.Subs[:cap(c.Subs)][i]
		p.Agent, p.Conn, p.sent, p.Call.Key, p.Call.Waiter = nil, nil, nil, nil, nil
		clear(p.Store[:cap(p.Store)]) // aliases the input
		if bytes += p.bytes(); bytes > MaxKept {
			p.free()
		}
	}
	// What Result writes to is Out.
	return bytes + max(c.Result.Cap(), cap(c.Out)) + cap(c.Req) + cap(c.Ans)
}

// FreeLarge frees large buffers. It is called between two requests that have arrived together, and when the
// session has to wait for its client, for input or until that has taken a large reply: many
// clients may wait at a time.
func (c *Caller) FreeLarge() {
	for _, b := range []*[]byte{&c.Out, &c.Req, &c.Ans} {
		if cap(*b) > MaxNormal {
			*b = nil
		}
	}
	if c.Result.Cap() > MaxNormal {
		c.Result = relay.ResultWriter{}
	}
	for i := range c.Subs[:cap(c.Subs)] {
		if p := &c.Subs[:cap(c.Subs)][i]; p.bytes() > MaxNormal/8 {
			p.free()
		}
	}
}

// bytes returns how many bytes the buffers of s have.
func (s *Sub) bytes() int {
	return cap(s.Req) + cap(s.Reply) + s.Sets.Cap() + 4*cap(s.Fetch.PMIDs) + 48*cap(s.Store)
}

// free frees the buffers of s.
func (s *Sub) free() {
	s.Req, s.Reply, s.Sets, s.Fetch.PMIDs, s.Store = nil, nil, relay.Sets{}, nil, nil
}

// replyBuffers are the large buffers for replies of Callers that wait for their turns at
// agents, of type *[]byte.
var replyBuffers sync.Pool

// BeforeWait implements transport.Waiter: it gives the slot of the session back. If the
// request waits for its turn at an agent, it puts the large buffers for replies into
// replyBuffers: many may wait at a time, but only those that have their turns need large
// buffers.
func (c *Caller) BeforeWait(sent bool) {
	c.Slot.Release()
	if sent {
		return
	}
	if c.Result.Cap() > MaxNormal || cap(c.Out) > MaxNormal {
		c.Result = relay.ResultWriter{} // may write to the memory of Out
	}
	c.toPool(&c.Out, len(c.Out)) // the beginning of the reply
	c.toPool(&c.Ans, 0)
	for i := range c.Subs[:cap(c.Subs)] {
		c.toPool(&c.Subs[:cap(c.Subs)][i].Reply, 0)
	}
}

// toPool puts *b into replyBuffers if it is large, and its first n bytes in its place.
func (c *Caller) toPool(b *[]byte, n int) {
	buf := *b
	if cap(buf) <= MaxNormal {
		return
	}
	*b = append([]byte(nil), buf[:n]...)
	if cap(buf) <= MaxKept {
		replyBuffers.Put(&buf)
		c.pooled++
	}
}

// fromPool returns dst, or a large buffer with the same bytes in place of one that toPool has
// taken.
func (c *Caller) fromPool(dst []byte) []byte {
	if c.pooled == 0 {
		return dst
	}
	c.pooled--
	if b, ok := replyBuffers.Get().(*[]byte); ok && cap(*b) > cap(dst) {
		return append((*b)[:0], dst...)
	}
	return dst
}
