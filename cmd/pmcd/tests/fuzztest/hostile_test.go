package fuzztest

import (
	"io"
	"net"
	"syscall"
	"time"
)

// doesNotRead sends requests until pmcd does not take more, and reads the replies
// after a while or never.
func (c *client) doesNotRead() error {
	if err := c.handshake(); err != nil {
		return err
	}
	b := encode(c.requests(20)...)
	for range 1 + c.IntN(200) {
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		c.e.requests.Add(1)
		if _, err := c.Write(b); err != nil {
			break
		}
	}
	c.pause(2 * time.Second)
	if c.IntN(2) == 0 {
		return nil
	}
	return c.drain(500 * time.Millisecond)
}

// readsSlowly reads replies a few bytes at a time.
func (c *client) readsSlowly() error {
	if err := c.handshake(); err != nil {
		return err
	}
	if err := c.send(c.requests(20)...); err != nil {
		return err
	}
	b := make([]byte, 1+c.IntN(300))
	for range 100 {
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(b); err != nil {
			return nil // maybe there are no more
		}
		c.pause(5 * time.Millisecond)
	}
	return nil
}

// idle asks nothing for some time.
func (c *client) idle() error {
	if c.IntN(2) == 0 {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	c.pause(3 * time.Second)
	return nil
}

// connectMany makes many connections at once.
func (c *client) connectMany() error {
	var others []net.Conn
	for range c.IntN(60) {
		o := &client{generator: c.generator, e: c.e, ctx: c.ctx, unix: c.IntN(2) == 0}
		if o.dial() != nil {
			break
		}
		others = append(others, o.Conn)
		if c.IntN(4) == 0 {
			o.SetDeadline(time.Now().Add(20 * time.Millisecond))
			io.ReadFull(o, make([]byte, 20))
		}
	}
	c.pause(500 * time.Millisecond)
	for _, o := range others {
		if tcp, ok := o.(*net.TCPConn); ok && c.IntN(2) == 0 {
			tcp.SetLinger(0)
		}
		o.Close()
	}
	return nil
}

// passesDescriptors sends requests with descriptors of its own.
func (c *client) passesDescriptors() error {
	if err := c.handshake(); err != nil {
		return err
	}
	conn, ok := c.Conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	for range 1 + c.IntN(3) {
		fds := make([]int, 1+c.IntN(10))
		for i := range fds {
			fds[i] = c.IntN(3) // standard files
		}
		if _, _, err := conn.WriteMsgUnix(encode(c.request()), syscall.UnixRights(fds...), nil); err != nil {
			return nil // it is refused
		}
	}
	return c.drain(50 * time.Millisecond)
}
