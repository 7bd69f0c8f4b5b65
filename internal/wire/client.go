// Package wire implements pmcd's end of the PDU protocol between pmcd and one agent. A
// [Client] is a [transport.Transport] to a PMDA at the other end of a stream, whose end
// serve.Server implements in Go.
package wire

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/rawio"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Client is the pmcd end of a stream to a PMDA.
//
// A Client usually has no goroutine of its own. A goroutine that waits for a
// reply, or to be admitted, reads the stream if no other goroutine does. It
// passes each reply on to the call that the reply belongs to. This saves a
// wakeup for each reply, and a caller that is busy with another agent does not
// hold up the callers behind it.
//
// When a reply does not come in time, or the agent says that it is not ready, a
// background goroutine takes over the stream until the agent has recovered.
// Close waits for this goroutine to end.
//
// No goroutine reads while no request is outstanding, so the end of an idle
// stream is noticed by the next call. [Client.PeerGone] and [Client.CheckIdle]
// report it earlier.
type Client struct {
	conn  Conn
	raw   syscall.RawConn // of the side for writing
	opt   Options
	attrs bool // the agent wants client attributes
	done  chan struct{}
	tasks sync.WaitGroup // the background goroutine

	// These say how the stream is read. They belong to the goroutine that has set
	// reading, and are changed with mu held.
	reader       rawio.NonblockReader
	directConn   DirectConn // conn, if it is one
	direct       bool       // read by directConn, not by reader
	readDeadline time.Time  // the deadline for reading; guarded by mu

	// unparsed has the bytes that were read but not yet returned by read: part of
	// a PDU, or several. It belongs to the goroutine that has set reading.
	unparsed []byte

	// discard is how many bytes are still to come of a PDU that is too long. It
	// belongs to the goroutine that has set reading.
	discard int

	sendMu  sync.Mutex // held for one write, locked before mu; guards the following
	out     []byte
	backlog []byte               // could not be written yet: is sent before anything else
	writer  rawio.NonblockWriter // writes as much of out as is possible without waiting
	profile *transport.Profile   // the last one sent
	sentFor int32                // the client that it was sent for

	notices transport.Notices
	state   atomic.Int32 // a transport.State; changed with mu held

	mu          sync.Mutex     // guards the following; not held over I/O
	inflight    []*pendingCall // sent, in order: the next reply is for the first; the array behind the last is nil: it would keep a Call alive
	admitted    int            // calls that may be sent and are not yet in inflight
	exclusive   bool           // no request may follow the last one that was admitted, before its reply
	depth       int            // how many requests may be in flight: maxDepth, or less after a slow reply
	maxDepth    int            // opt.Depth, or 1 if the agent was ever not ready
	reading     bool
	waiting     fairqueue.Queue[*pendingCall] // to be admitted
	freeCalls   []*pendingCall                // for reuse
	exitErr     error                         // why the agent's process has ended; what it wrote can still be read
	err         error                         // why the Client has ended
	lastPending transport.Pending             // the request that a late or ended agent has not answered
}

var (
	_ transport.Transport   = (*Client)(nil)
	_ transport.IdleChecker = (*Client)(nil)
)

// State implements transport.Transport.
func (c *Client) State() transport.State { return transport.State(c.state.Load()) }

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
	f, err := c.acquire(call)
	if err != nil {
		return nil, err
	}

	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.out = c.takeNotices(append(c.out[:0], c.backlog...))
	end := len(c.out)
	sendProfile := call.Profile != nil && !c.agentHasProfile(call) // after the notices, which may discard it
	out, err := transport.AppendRequest(c.out, call, sendProfile)

	// Once f is in inflight a reply is due, even if the caller does not wait for it.
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
	c.admitted--
	c.out, c.backlog = out, c.backlog[:0]
	if sendProfile {
		c.profile, c.sentFor = call.Profile, call.Origin.Client
	}
	c.inflight = append(c.inflight, f)
	if len(c.inflight) == 1 {
		f.startTimeout(time.Now())
	}
	if call.Batched {
		c.wakeReader() // the caller may not call Recv for a while
	}
	c.mu.Unlock()
	for rest := out[end:]; len(rest) > 0; {
		n, t, _ := pdu.Header(rest)
		c.opt.Counts.Out(t)
		c.opt.OnPDU(true, rest[:n])
		rest = rest[n:]
	}
	if err := c.write(call); err != nil {
		return nil, err
	}
	return f, nil
}

// agentHasProfile reports whether the agent has the profile of call. The caller
// holds sendMu.
//
// C pmcd differs: it sends the profile whenever the client or the context
// changes. To send it only when its content has changed saves an agent that has many
// clients half of its work, and keeps a client from making pmcd send 64 KiB for each
// of its requests.
func (c *Client) agentHasProfile(call *transport.Call) bool {
	return c.profile != nil && call.Profile.Same(c.profile)
}

// write writes c.out, within the timeout of call. An agent that does not read its requests is
// late, like one that does not reply. The caller holds sendMu.
func (c *Client) write(call *transport.Call) error {
	rest, err := c.writer.Write(c.out)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) == 0 {
		return nil
	}
	call.BeforeWait(true)
	n := 0
	if err = c.conn.SetWriteDeadline(deadlineAfter(call.Timeout)); err == nil {
		n, err = c.conn.Write(rest)
	}
	if resetErr := c.conn.SetWriteDeadline(time.Time{}); err == nil {
		err = resetErr // with an expired deadline writer could not write
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
	if c.reading { // by another goroutine, whose wait ends about now, too
		return nil
	}
	return c.markLate()
}

// deadlineAfter returns the time at which timeout will have passed, or the zero
// time if there is no timeout.
func deadlineAfter(timeout time.Duration) time.Time {
	if timeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(timeout)
}
