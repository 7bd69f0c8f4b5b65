// Package wire speaks the PDU protocol between pmcd and one agent, from both
// ends: a [Client] makes a PMDA behind a stream an [transport.Transport], and
// [Serve] makes an [agents.Agent] a PMDA.
package wire

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A State is what a Client that has not ended is able to do.
type State = transport.State

// States of a [Client].
const (
	Ready    = transport.Ready
	Late     = transport.Late
	NotReady = transport.NotReady
)

// A Client is the pmcd end of a stream to a PMDA.
//
// It has no goroutine of its own in the ordinary case: a goroutine that waits
// for a reply, or for its turn to send, reads the stream if nobody else does,
// and what it reads goes to whom it is for. So no goroutine wakes up for one
// that can do without, and a reply whose owner is busy with another agent
// holds up nobody.
//
// When a reply is missed, or the agent says that it is not ready, the stream
// goes to a background goroutine, which owns it until the agent is well
// again; Close waits for its end.
//
// Nobody reads while no request is outstanding, so the end of an idle stream
// is noticed by the next call; [Client.PeerGone] is for those who know better.
type Client struct {
	conn  Conn
	raw   syscall.RawConn // of the side that is written to
	opt   Options
	attrs bool // the agent wants client attributes
	done  chan struct{}
	tasks sync.WaitGroup // the background goroutine

	// How the stream is read belongs to the goroutine that has set reading, and
	// changes with mu held.
	reader       rawio.NonblockReader
	directConn   DirectConn // conn, if it is one
	direct       bool       // read by in, not get
	readDeadline time.Time  // the deadline for reading; guarded by mu

	// unparsed is what was read of the next PDU, or of several. It belongs to the
	// goroutine that has set reading.
	unparsed []byte

	sendMu  sync.Mutex // held for one write; guards the following
	out     []byte
	backlog []byte               // could not be written: goes out before anything else
	writer  rawio.NonblockWriter // writes out, as far as that needs no waiting
	profile *pdu.Profile         // the last one sent, and for whom
	origin  agents.Origin

	notices transport.Notices
	state   atomic.Int32 // a State; changed with mu held

	mu            sync.Mutex     // guards the following; not held over I/O
	inflight      []*pendingCall // sent, in order: the next reply is for the first
	waiting       []*pendingCall // for a slot, in order; as in inflight, nothing is behind the last: it would keep a Call
	granted       int            // slots given and not yet in inflight
	exclusive     bool           // the last slot is for a request that no other may follow
	lastReplySlow bool           // the last answer was not quick
	everNotReady  bool           // has said that it is not ready
	reading       bool
	freeCalls     []*pendingCall // for the next Calls
	exitErr       error          // the process has ended; what it has written can still be read
	err           error          // why the Client has ended
	lastPending   transport.Pending
}

var (
	_ transport.Transport   = (*Client)(nil)
	_ transport.IdleChecker = (*Client)(nil)
)

// A pendingCall is a Call on its way, and its Reply.
type pendingCall struct {
	client       *Client
	call         *transport.Call
	wake         chan struct{} // has room for one
	want         pdu.Type      // of the reply
	smallRequest bool          // the request
	began        time.Time     // when it became first of inflight
	deadline     time.Time     // for the reply; set then too
	answered     time.Time     // set with reply

	// Guarded by Client.mu.
	granted bool
	blocked bool // waits for wake
	done    bool // err is set, or reply
	err     error
	reply   []byte // read by another; its memory is used again
}

// State implements transport.Transport.
func (c *Client) State() State { return State(c.state.Load()) }

// WantsAttrs implements transport.Transport.
func (c *Client) WantsAttrs() bool { return c.attrs }

// Done implements transport.Transport.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err implements transport.Transport.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Send implements transport.Transport.
func (c *Client) Send(call *transport.Call) (transport.Reply, error) {
	_, t, _ := pdu.Header(call.Req)
	f, err := c.acquire(call)
	if err != nil {
		return nil, err
	}

	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.out = c.takeNotices(append(c.out[:0], c.backlog...))
	end := len(c.out)
	sendProfile := call.Profile != nil && !c.agentHasProfile(call) // any more
	out, err := transport.AppendRequest(c.out, call, sendProfile)

	// From here on the reply is due, whatever becomes of the caller.
	c.mu.Lock()
	if err == nil {
		err = c.refusal()
	}
	if err != nil {
		c.backlog = append(c.backlog[:0], c.out[:end]...)
		c.release()
		c.recycle(f)
		c.mu.Unlock()
		return nil, err
	}
	c.granted--
	c.out, c.backlog = out, c.backlog[:0]
	if sendProfile {
		c.opt.Counts.Out(pdu.TypeProfile)
		c.profile, c.origin = call.Profile, call.Origin
	}
	c.opt.Counts.Out(t)
	c.inflight = append(c.inflight, f)
	if len(c.inflight) == 1 {
		f.startTimeout(time.Now())
	}
	if call.Batched {
		c.wakeReader() // we may not come to read for a while
	}
	c.mu.Unlock()
	if sendProfile {
		n, _, _ := pdu.Header(out[end:])
		c.opt.Tap(true, out[end:end+int(n)])
		end += int(n)
	}
	c.opt.Tap(true, out[end:])
	if err := c.write(call.Timeout); err != nil {
		return nil, err
	}
	return f, nil
}

const (
	// maxFree is how many pendingCalls are kept for the next Calls.
	maxFree = 32
	// maxFreeReply is the size, in bytes, above which a buffer is not kept.
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
	_, t, _ := pdu.Header(call.Req)
	f.call, f.want = call, transport.ReplyType(t)
	f.smallRequest = len(call.Req) <= maxSmallRequest && (call.Profile == nil || len(call.Profile.InDoms) == 0)
	return f
}

// keep keeps f, which is over, for the next Call. The caller holds mu.
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

// agentHasProfile reports whether the agent has the profile of call. The caller holds sendMu.
//
// C pmcd differs: it sends a profile whenever the client or the context is
// another one. One without instance domains is the same for all of them, and
// to send it again would double the work of an agent that many clients ask.
func (c *Client) agentHasProfile(call *transport.Call) bool {
	p, q := call.Profile, c.profile
	if p == q && call.Origin == c.origin {
		return true
	}
	return q != nil && p.Exclude == q.Exclude && len(p.InDoms)+len(q.InDoms) == 0
}

// write writes c.out, and no longer than timeout. An agent that does not read
// is late like one that does not write. The caller holds sendMu.
func (c *Client) write(timeout time.Duration) error {
	rest, err := c.writer.Write(c.out)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) == 0 {
		return nil
	}
	n := 0
	if err = c.conn.SetWriteDeadline(deadlineAfter(timeout)); err == nil {
		n, err = c.conn.Write(rest)
	}
	if resetErr := c.conn.SetWriteDeadline(time.Time{}); err == nil {
		err = resetErr // a deadline that has passed would stop put
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return c.fail(err)
	}
	c.backlog = append(c.backlog[:0], rest[n:]...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading { // and that ends now too
		return nil
	}
	return c.markLate()
}

// Recv implements transport.Reply.
func (f *pendingCall) Recv(dst []byte) ([]byte, error) {
	c, call := f.client, f.call
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.recycle(f)
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

// begin starts the time for the reply.
func (f *pendingCall) startTimeout(now time.Time) {
	f.began, f.deadline = now, time.Time{}
	if t := f.call.Timeout; t > 0 {
		f.deadline = now.Add(t)
	}
}

// deadlineAfter is when timeout, if there is one, has passed.
func deadlineAfter(timeout time.Duration) time.Time {
	if timeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(timeout)
}
