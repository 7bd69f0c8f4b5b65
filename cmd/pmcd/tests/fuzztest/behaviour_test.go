package fuzztest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// sequential sends one request after the other, as clients of PCP do.
func (c *client) sequential() error {
	if err := c.handshake(); err != nil {
		return err
	}
	for range 1 + c.IntN(50) {
		if c.IntN(4) == 0 {
			p := request{c.profile(), 0}
			if err := c.send(p); err != nil {
				return err
			}
		}
		r := c.request()
		c.SetDeadline(time.Now().Add(unanswered))
		if err := c.send(r); err != nil {
			return err
		}
		if err := c.reply(r); err != nil {
			return err
		}
		if c.IntN(10) == 0 {
			c.pause(20 * time.Millisecond)
		}
	}
	return nil
}

// pipelined sends several requests at once, and reads the replies then.
func (c *client) pipelined() error {
	if err := c.handshake(); err != nil {
		return err
	}
	for range 1 + c.IntN(5) {
		rs := c.requests(50)
		c.SetDeadline(time.Now().Add(unanswered))
		if err := c.send(rs...); err != nil {
			return err
		}
		for _, r := range rs {
			c.SetDeadline(time.Now().Add(unanswered))
			if err := c.reply(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// inPieces sends requests in pieces.
func (c *client) inPieces() error {
	if err := c.handshake(); err != nil {
		return err
	}
	rs := c.requests(8)
	c.e.requests.Add(int64(len(rs)))
	for b := encode(rs...); len(b) > 0; {
		n := min(len(b), 1+c.IntN(60))
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; c.IntN(3) == 0 {
			c.pause(5 * time.Millisecond)
		}
	}
	for _, r := range rs {
		if err := c.reply(r); err != nil {
			return err
		}
	}
	return nil
}

// halfClosed closes its side after the last request. All replies must come.
func (c *client) halfClosed() error {
	if err := c.handshake(); err != nil {
		return err
	}
	rs := c.requests(20)
	if err := c.send(rs...); err != nil {
		return err
	}
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return err
	}
	for i, r := range rs {
		c.SetDeadline(time.Now().Add(unanswered))
		if err := c.reply(r); err != nil {
			return fmt.Errorf("reply %d of %d: %w", i, len(rs), err)
		}
	}
	m, err := c.next()
	if e, ok := m.(*pdu.Error); ok && (e.Code == pdu.ErrnoPermission || e.Code == pdu.ErrnoConnLimit) || c.denied {
		return nil // a reload has changed the access rules
	}
	if err == nil {
		return findingf("%+v after the last reply", m)
	}
	return nil
}

// mutated sends PDUs with changes, or no PDUs at all, and reads what comes.
func (c *client) mutated() error {
	if c.IntN(4) > 0 {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	for range 1 + c.IntN(20) {
		var b []byte
		for _, r := range c.mixture(4) {
			// What a PDU that is no store any more stores is not known. Root may
			// change settings of pmcd.
			one := encode(r)
			if _, store := r.Message.(*pdu.Result); c.IntN(3) > 0 && !(store && c.unix) {
				one = mutate(c.Rand, one)
			}
			b = append(b, one...)
		}
		switch c.IntN(30) {
		case 0:
			b = randomBytes(c.Rand, 100<<10)
		case 1:
			b = append(b, bytes.Repeat(b, c.IntN(5))...)
		}
		c.e.requests.Add(1)
		if _, err := c.Write(b); err != nil {
			return err
		}
		if err := c.drain(time.Duration(c.IntN(10)) * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// drain reads PDUs for a time.
func (c *client) drain(d time.Duration) error {
	defer func() { c.SetDeadline(time.Now().Add(unanswered)) }()
	for c.SetReadDeadline(time.Now().Add(d)); ; {
		if _, err := c.next(); errors.Is(err, os.ErrDeadlineExceeded) {
			return c.ctx.Err()
		} else if err != nil {
			return err
		}
	}
}

// cut sends a part of a PDU, and then disconnects or is silent for some time.
func (c *client) cut() error {
	if c.IntN(3) > 0 {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	b := encode(c.mixture(3)...)
	if _, err := c.Write(b[:c.IntN(len(b))]); err != nil {
		return err
	}
	switch c.IntN(3) {
	case 0:
		c.pause(6 * time.Second) // longer than pmcd waits for the rest
	case 1:
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		return c.drain(time.Second)
	}
	return nil
}

// container chooses a container, which may be unknown, and fetches.
func (c *client) container() error {
	if err := c.handshake(); err != nil {
		return err
	}
	name := pick(c.Rand, boxName, boxName, "unknown", fmt.Sprint("box", c.IntN(1000)), "..", "")
	if err := c.send(request{pdutest.Creds(pdu.FeatureContainer), 0}, request{&pdu.Attr{Code: pdu.AttrContainer, Value: []byte(name)}, 0}); err != nil {
		return err
	}
	hostname, nodename := pdu.NewPMID(domainPmcd, 0, 21), pdu.NewPMID(domainLinux, 12, 4)
	for range 1 + c.IntN(5) {
		if err := c.send(request{&pdu.Fetch{PMIDs: []pdu.PMID{hostname, nodename, c.lie(0), pdu.NewPMID(domainProc, 8, 99)}}, pdu.TypeResult}); err != nil {
			return err
		}
		if err := c.drain(50 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// stores stores into metrics.
func (c *client) stores() error {
	if err := c.handshake(); err != nil {
		return err
	}
	for range 1 + c.IntN(10) {
		c.SetDeadline(time.Now().Add(unanswered))
		r := c.valid(c.store)
		if err := c.send(r); err != nil {
			return err
		}
		if err := c.reply(r); err != nil {
			return err
		}
	}
	return nil
}
