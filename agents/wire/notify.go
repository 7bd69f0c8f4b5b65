package wire

import (
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Notify implements transport.Transport.
func (c *Client) Notify(n transport.Notice) {
	if !c.attrs {
		n.Attrs = nil
	}
	if !n.End && len(n.Attrs) == 0 {
		return
	}
	c.notices.Add(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal() == nil && !c.reading && len(c.inflight)+c.granted == 0 {
		c.flushLocked()
	}
}

// takeNotices appends to out the PDUs of all notices. The caller holds sendMu.
func (c *Client) takeNotices(out []byte) []byte {
	for _, n := range c.notices.Take() {
		if n.End {
			out = c.appendNotice(out, n.Client, &pdu.Error{Code: pdu.ErrnoNotConn})
			if c.origin.Client == n.Client {
				c.profile = nil // the next user of the number has another
			}
		}
		for _, a := range n.Attrs {
			// libpcp_pmda takes the value for a C string.
			value := append(append(make([]byte, 0, len(a.Value)+1), a.Value...), 0)
			out = c.appendNotice(out, n.Client, &pdu.Attr{Code: a.Code, Value: value})
		}
	}
	return out
}

func (c *Client) appendNotice(out []byte, client int32, m pdu.Message) []byte {
	b, err := pdu.Append(out, client, m)
	if err != nil { // too long an attribute: the agent does without
		return out
	}
	c.opt.Counts.Out(m.Type())
	c.opt.Tap(true, b[len(out):])
	return b
}

// flushLocked writes notices, as far as that needs no waiting; the rest goes
// out before the next request. The caller holds mu, which is let go meanwhile.
func (c *Client) flushLocked() {
	if !c.notices.Any() {
		return
	}
	c.granted++ // keeps requests, whose notices these are, behind
	c.mu.Unlock()
	again, err := true, error(nil)
	for again && err == nil { // others may come meanwhile
		again, err = c.flush()
	}
	c.mu.Lock()
	if err != nil {
		c.failLocked(err)
	}
	c.release()
	c.wakeReader()
}

// flush reports whether there is more that can be written.
func (c *Client) flush() (more bool, err error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.out = append(c.out[:0], c.backlog...)
	if len(c.backlog) == 0 { // else notices wait where they are merged
		c.out = c.takeNotices(c.out)
	}
	rest, err := c.writer.Write(c.out)
	c.backlog = append(c.backlog[:0], rest...)
	return len(rest) == 0 && c.notices.Any(), err
}
