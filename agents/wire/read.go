package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// overdueGrace is how long a reply is looked for when its time is over: it may
// have come while the one who waits for it was busy with another agent.
const overdueGrace = 10 * time.Millisecond

// readReply reads the reply to the first of inflight. If that is own, the reply
// is appended to dst and returned; otherwise it goes to its owner. The caller
// holds mu, which is let go meanwhile, and nobody is reading.
func (c *Client) readReply(waiter *pendingCall, dst []byte, callerDeadline time.Time) []byte {
	f := c.inflight[0]
	buf := dst
	if f != waiter {
		buf = f.reply[:0]
	}
	start := len(buf)
	c.reading = true
	replyDeadline, timeout := f.deadline, f.call.Timeout
	c.mu.Unlock()
	overdue := false
	if now := time.Now(); !replyDeadline.IsZero() && replyDeadline.Before(now.Add(overdueGrace)) {
		replyDeadline, overdue = now.Add(overdueGrace), true
	}
	readUntil := replyDeadline
	if !callerDeadline.IsZero() && (replyDeadline.IsZero() || callerDeadline.Before(replyDeadline)) {
		readUntil = callerDeadline
	}

	c.setDirect(waiter != nil && waiter.call.MayBlock)
	err := c.setReadDeadline(readUntil)
	var b []byte
	for err == nil {
		b, err = c.read(buf)
		if err == nil && errorCode(b[start:]) != pdu.ErrnoReady {
			break // PM_ERR_PMDAREADY from one that is ready says nothing
		}
		if overdue && errors.Is(err, os.ErrDeadlineExceeded) && len(c.unparsed) > 0 {
			// It has begun, and could not go on because nobody read.
			overdue, replyDeadline = false, deadlineAfter(timeout)
			err = c.setReadDeadline(replyDeadline)
		}
	}

	now := time.Now()
	c.mu.Lock()
	c.reading = false
	if c.err != nil { // f is done
		return nil
	}
	if err != nil {
		late := errors.Is(err, os.ErrDeadlineExceeded) && c.exitErr == nil
		if late && readUntil != replyDeadline && (replyDeadline.IsZero() || now.Before(replyDeadline)) {
			c.wakeReader() // our time is over, not the agent's
		} else if late {
			c.markLate()
		} else {
			c.failLocked(err)
		}
		return nil
	}
	if _, t, _ := pdu.Header(b[start:]); t != f.want && t != pdu.TypeError {
		c.failLocked(fmt.Errorf("%v PDU in reply to %v: %w", t, requestType(f), pdu.ErrnoIPC))
		return nil
	}
	f.answered = now
	c.lastReplySlow = now.Sub(f.began) > maxQuickReply
	c.inflight = slices.Delete(c.inflight, 0, 1)
	if len(c.inflight) > 0 {
		c.inflight[0].startTimeout(now)
	}
	if errorCode(b[start:]) == pdu.ErrnoNotReady {
		owed := make([]pdu.Type, 0, 1+len(c.inflight))
		// What looks like the answer may have been sent before the request
		// arrived, and the true answer may follow.
		for _, f := range append([]*pendingCall{f}, c.inflight...) {
			owed = append(owed, f.want)
			c.finish(f, transport.ErrNotReady)
		}
		c.inflight = slices.Delete(c.inflight, 0, len(c.inflight))
		c.startRecovery(NotReady, owed)
		return nil
	}
	if f != waiter {
		f.reply = b
		c.finish(f, nil)
	}
	if err := c.unsolicited(); err != nil {
		c.failLocked(err)
	}
	c.grant()
	c.wakeReader()
	if len(c.inflight)+c.granted == 0 && c.refusal() == nil {
		c.flushLocked()
	}
	if c.exitErr != nil && len(c.inflight) == 0 {
		c.failLocked(c.exitErr)
	}
	if f == waiter {
		return b
	}
	return nil
}

// unsolicited looks at what came behind the last reply that was due. The
// caller holds mu.
func (c *Client) unsolicited() error {
	for c.err == nil && len(c.inflight)+c.granted == 0 && len(c.unparsed) >= pdu.HeaderLen {
		n, t, _ := pdu.Header(c.unparsed)
		if t != pdu.TypeError || n != 16 {
			return fmt.Errorf("%v PDU not asked for: %w", t, pdu.ErrnoIPC)
		}
		if len(c.unparsed) < 16 {
			return nil // the next reader gets the rest
		}
		switch code := errorCode(c.unparsed[:16]); code {
		case pdu.ErrnoReady:
			c.unparsed = append(c.unparsed[:0], c.unparsed[16:]...)
		case pdu.ErrnoNotReady:
			c.unparsed = append(c.unparsed[:0], c.unparsed[16:]...)
			c.startRecovery(NotReady, nil)
			return nil
		default:
			return fmt.Errorf("ERROR PDU (%d) not asked for: %w", code, pdu.ErrnoIPC)
		}
	}
	return nil
}

// read appends the next PDU of the stream to dst. If it fails, what has come
// of it is in c.ahead, and read can be called again.
func (c *Client) read(dst []byte) ([]byte, error) {
	start := len(dst)
	b := append(dst, c.unparsed...)
	c.unparsed = c.unparsed[:0]
	for {
		have, need := len(b)-start, pdu.HeaderLen
		if have >= need {
			n, err := pdu.Frame(b[start:], 0)
			if err != nil {
				return nil, err
			}
			need = n
		}
		if have >= need && have >= pdu.HeaderLen {
			c.unparsed = append(c.unparsed, b[start+need:]...)
			_, t, _ := pdu.Header(b[start:])
			c.opt.Counts.In(t)
			c.opt.Tap(false, b[start:start+need])
			return b[:start+need], nil
		}
		// Memory follows the bytes received, not the length claimed.
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

// errorCode is the code in b if that is an ERROR PDU, else 0.
func errorCode(b []byte) pdu.Errno {
	if _, t, _ := pdu.Header(b); t != pdu.TypeError || len(b) < 16 {
		return 0
	}
	return pdu.Errno(binary.BigEndian.Uint32(b[12:]))
}

func requestType(f *pendingCall) pdu.Type {
	_, t, _ := pdu.Header(f.call.Req)
	return t
}
