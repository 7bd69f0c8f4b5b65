package wire

import (
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Notify implements transport.Transport. The acceptor calls it, so it must not wait: a request
// that is being written has sendMu for long, and is admitted, so nothing is flushed then.
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
	if c.refusal() == nil && !c.reading && len(c.inflight)+c.admitted == 0 {
		c.flushLocked()
	}
}

// takeNotices appends the PDUs of all queued notices to out. The caller holds
// sendMu.
func (c *Client) takeNotices(out []byte) []byte {
	for _, n := range c.notices.Take() {
		if n.End {
			out = c.appendNotice(out, n.Client, &pdu.Error{Code: pdu.ErrnoNotConn})
			if c.sentFor == n.Client {
				c.profile = nil // a PMDA may discard it
			}
		}
		for _, a := range n.Attrs {
			// libpcp_pmda treats the value as a C string.
			value := append(append(make([]byte, 0, len(a.Value)+1), a.Value...), 0)
			out = c.appendNotice(out, n.Client, &pdu.Attr{Code: a.Code, Value: value})
		}
	}
	return out
}

// appendNotice appends m to out, with client as its sender.
func (c *Client) appendNotice(out []byte, client int32, m pdu.Message) []byte {
	b, err := pdu.Append(out, client, m)
	if err != nil { // the attribute is too long: it is not sent
		return out
	}
	c.opt.Counts.Out(m.Type())
	c.opt.OnPDU(true, b[len(out):])
	return b
}

// flushLocked writes as much of the queued notices as is possible without waiting.
// The rest is sent before the next request. The caller holds mu, which is released
// during the writes.
func (c *Client) flushLocked() {
	if !c.notices.Any() {
		return
	}
	c.admitted++ // so that no request is sent before the notices
	c.mu.Unlock()
	again, err := true, error(nil)
	for again && err == nil { // notices may be added meanwhile
		again, err = c.flush()
	}
	c.mu.Lock()
	if err != nil {
		c.failLocked(err)
	}
	c.release()
	c.wakeReader()
}

// flush writes the backlog, or the queued notices if there is no backlog. It
// reports whether notices are left that can be written now.
func (c *Client) flush() (more bool, err error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.out = append(c.out[:0], c.backlog...)
	if len(c.backlog) == 0 { // otherwise they stay queued, where notices are merged
		c.out = c.takeNotices(c.out)
	}
	rest, err := c.writer.Write(c.out)
	c.backlog = append(c.backlog[:0], rest...)
	return len(rest) == 0 && c.notices.Any(), err
}
