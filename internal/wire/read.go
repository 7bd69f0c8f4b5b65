package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// overdueGrace is how long readBefore waits at least, also if the deadline has passed.
// The reply may have arrived while the caller was busy with another agent, or had no CPU.
const overdueGrace = 100 * time.Millisecond

// errCallerDeadline says that the caller's deadline has passed, and the agent's has not.
var errCallerDeadline = fmt.Errorf("of the caller: %w", os.ErrDeadlineExceeded)

// readReply reads the next reply to the first call of inflight. If that is waiter, and this
// is its only reply, it is appended to dst and returned. Otherwise it is handed to its call
// and readReply returns nil. The caller holds mu, which is released during the
// read, and no goroutine is reading. callerDeadline, unless it is zero, ends the
// read even if the agent has more time.
func (c *Client) readReply(waiter *pendingCall, dst []byte, callerDeadline time.Time) []byte {
	f := c.inflight[0]
	returned := f == waiter && f.due == 1 && len(f.reply) == 0
	buf := f.reply
	if returned {
		buf = dst
	}
	deadline, timeout := f.deadline, f.call.Timeout
	c.reading = true
	c.mu.Unlock()
	c.setDirect(waiter != nil && waiter.call.MayBlock)
	b, err := c.readBefore(buf, deadline, timeout, callerDeadline)
	now := time.Now()
	c.mu.Lock()
	c.reading = false
	if c.err != nil { // f is done
		return nil
	}
	if err != nil {
		c.readFailed(err)
		return nil
	}
	reply := b[len(buf):]
	switch _, t, _ := pdu.Header(reply); {
	case t != f.want && t != pdu.TypeError:
		c.failLocked(fmt.Errorf("%v PDU in reply to %v: %w", t, requestType(f), pdu.ErrnoIPC))
	case errorCode(reply) == pdu.ErrnoNotReady:
		// The agent may have sent this before the request arrived. Then the reply
		// to the request still follows.
		c.startRecovery(transport.NotReady)
	case f.due > 1:
		f.due--
		f.reply = b
		if waiter == nil { // it may stop reading
			c.wakeReader()
		}
	case returned:
		c.next(now)
		return b
	default:
		f.reply = b
		c.finish(f, nil)
		c.next(now)
	}
	return nil
}

// readBefore appends a reply to buf, as read does. The deadlines are the agent's, which may
// have passed, and the caller's; zero is none.
func (c *Client) readBefore(buf []byte, deadline time.Time, timeout time.Duration, callerDeadline time.Time) ([]byte, error) {
	overdue := false
	if now := time.Now(); !deadline.IsZero() && deadline.Before(now.Add(overdueGrace)) {
		deadline, overdue = now.Add(overdueGrace), true
	}
	err := c.setReadDeadline(earlier(deadline, callerDeadline))
	for err == nil {
		var b []byte
		b, err = c.read(buf)
		if err == nil && errorCode(b[len(buf):]) != pdu.ErrnoReady {
			return b, nil // PM_ERR_PMDAREADY from an agent that is ready has no meaning
		}
		if overdue && errors.Is(err, os.ErrDeadlineExceeded) && c.inPDU() {
			// The agent has begun to write the reply, and could not go on because
			// no goroutine read it. It gets its timeout again.
			overdue, deadline = false, deadlineAfter(timeout)
			err = c.setReadDeadline(earlier(deadline, callerDeadline))
		}
	}
	if callerFirst := earlier(deadline, callerDeadline) != deadline; callerFirst && errors.Is(err, os.ErrDeadlineExceeded) &&
		(deadline.IsZero() || time.Now().Before(deadline)) {
		err = errCallerDeadline
	}
	return nil, err
}

// readFailed handles an error of readBefore. The caller holds mu.
func (c *Client) readFailed(err error) {
	switch late := errors.Is(err, os.ErrDeadlineExceeded) && c.exitErr == nil; {
	case !late:
		c.failLocked(err)
	case err == errCallerDeadline:
		c.wakeReader()
	default:
		c.markLate()
	}
}

// next goes on to the next request after the last reply to the first one. The caller holds mu.
func (c *Client) next(now time.Time) {
	f := c.inflight[0]
	f.answered = now
	if now.Sub(f.began) > maxQuickReply {
		c.depth = 1
	} else {
		c.depth = min(c.depth+1, c.maxDepth)
	}
	c.inflight = slices.Delete(c.inflight, 0, 1)
	if len(c.inflight) > 0 {
		c.inflight[0].startTimeout(now)
	}
	if err := c.unsolicited(); err != nil {
		c.failLocked(err)
	}
	c.grant()
	c.wakeReader()
	if len(c.inflight)+c.admitted == 0 && c.refusal() == nil {
		c.flushLocked()
	}
	if c.exitErr != nil && len(c.inflight) == 0 {
		c.failLocked(c.exitErr)
	}
}

// earlier returns the earlier of two deadlines; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unsolicited handles what came after the last reply that was due: NOTREADY or
// READY, or an error. The caller holds mu.
func (c *Client) unsolicited() error {
	for c.err == nil && len(c.inflight)+c.admitted == 0 && len(c.unparsed) >= pdu.HeaderLen {
		n, t, _ := pdu.Header(c.unparsed)
		if t != pdu.TypeError || n != 16 {
			return fmt.Errorf("unsolicited %v PDU: %w", t, pdu.ErrnoIPC)
		}
		if len(c.unparsed) < 16 {
			return nil // the next read gets the rest
		}
		switch code := errorCode(c.unparsed[:16]); code {
		case pdu.ErrnoReady:
			c.unparsed = append(c.unparsed[:0], c.unparsed[16:]...)
		case pdu.ErrnoNotReady:
			c.unparsed = append(c.unparsed[:0], c.unparsed[16:]...)
			c.startRecovery(transport.NotReady)
			return nil
		default:
			return fmt.Errorf("unsolicited ERROR PDU (%d): %w", code, pdu.ErrnoIPC)
		}
	}
	return nil
}

// tooBig is an ERROR PDU with PM_ERR_TOOBIG.
var tooBig = func() []byte {
	b, err := pdu.Append(nil, 0, &pdu.Error{Code: pdu.ErrnoTooBig})
	if err != nil {
		panic(err) // it has a fixed length
	}
	return b
}()

// inPDU reports whether part of a PDU was read.
func (c *Client) inPDU() bool { return len(c.unparsed)+c.discard > 0 }

// read appends the next PDU of the stream to dst, or tooBig in place of one that is
// longer than opt.MaxReply. If it fails, the part that was read is in c.unparsed, and
// read can be called again.
func (c *Client) read(dst []byte) ([]byte, error) {
	start := len(dst)
	b := append(dst, c.unparsed...)
	c.unparsed = c.unparsed[:0]
	for {
		have, need := len(b)-start, pdu.HeaderLen
		if have >= need && c.discard == 0 {
			n, err := pdu.Frame(b[start:], 0)
			if err != nil {
				return nil, err
			}
			if need = n; n > c.opt.MaxReply {
				_, t, _ := pdu.Header(b[start:])
				c.opt.Counts.In(t)
				c.discard = n
			}
		}
		if c.discard > 0 {
			drop := min(c.discard, have)
			c.discard -= drop
			if c.discard == 0 {
				c.unparsed = append(c.unparsed, b[start+drop:]...)
				return append(b[:start], tooBig...), nil
			}
			b = b[:start]
			have, need = 0, c.discard
		}
		if have >= need && have >= pdu.HeaderLen {
			c.unparsed = append(c.unparsed, b[start+need:]...)
			_, t, _ := pdu.Header(b[start:])
			c.opt.Counts.In(t)
			c.opt.OnPDU(false, b[start:start+need])
			return b[:start+need], nil
		}
		// The buffer grows with the bytes received, not by the length in the
		// header, which may be false.
		const minRead, maxRead = 4 << 10, 64 << 10
		if free := max(minRead, min(maxRead, need-have)); cap(b)-len(b) < free {
			b = append(b, make([]byte, free)...)[:len(b)]
		}
		n, err := c.readSome(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if n > 0 || err == nil {
			continue
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // a reply is due
		}
		c.unparsed = append(c.unparsed, b[start:]...)
		return nil, err
	}
}

// errorCode returns the code in b if that is an ERROR PDU, otherwise 0.
func errorCode(b []byte) pdu.Errno {
	if _, t, _ := pdu.Header(b); t != pdu.TypeError || len(b) < 16 {
		return 0
	}
	return pdu.Errno(binary.BigEndian.Uint32(b[12:]))
}

// requestType returns the PDU type of the request of f.
func requestType(f *pendingCall) pdu.Type {
	_, t, _ := pdu.Header(f.call.Req)
	return t
}
