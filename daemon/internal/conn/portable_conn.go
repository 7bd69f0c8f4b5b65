package conn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// A portableConn is a Conn by package net.
type portableConn struct {
	interrupter
	a       *Acceptor
	conn    streamConn
	peer    Peer
	session Session

	// The following belong to the goroutine that serves the connection.
	first    [64]byte // for Wait, which has to read to find out that there is input
	in       []byte   // of first, not read yet
	readErr  error
	deadline time.Time
	reply    slowReply
}

// A streamConn is a TCP or a Unix socket.
type streamConn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

func (c *portableConn) identify(unixPath string) error {
	if _, ok := c.conn.(*net.UnixConn); ok {
		c.peer.Unix, c.peer.Path = true, unixPath
		return c.peer.setCredentials(c.FD())
	}
	addr, err := netip.ParseAddrPort(c.conn.RemoteAddr().String())
	c.peer.Addr = addr.Addr().Unmap()
	return err
}

func (c *portableConn) Peer() Peer      { return c.peer }
func (c *portableConn) FD() int         { return fdOf(c.conn) }
func (c *portableConn) Exclusive() bool { return false }

func (c *portableConn) Interrupt(err error) {
	if c.interrupt(err) {
		c.conn.SetReadDeadline(past)
	}
}

func (c *portableConn) Abort() {
	c.end()
	c.conn.CloseRead()
	c.conn.CloseWrite()
}

func (c *portableConn) SetReadDeadline(t time.Time) {
	c.deadline = t
	if errors.Is(c.readErr, os.ErrDeadlineExceeded) {
		c.readErr = nil
	}
}

func (c *portableConn) Wait() error {
	c.SetReadDeadline(time.Time{})
	for c.interrupted() == nil && len(c.in) == 0 && c.readErr == nil {
		c.in = c.first[:c.read(c.first[:])]
	}
	switch {
	case c.interrupted() != nil:
		return c.interrupted()
	case len(c.in) > 0:
		return nil
	}
	return io.EOF
}

func (c *portableConn) Compact() {}

func (c *portableConn) Read(b []byte) (int, error) {
	for c.interrupted() == nil && len(c.in) == 0 && c.readErr == nil && len(b) > 0 {
		c.session.BeforeWait()
		if n := c.read(b); n > 0 {
			return n, nil
		}
	}
	if err := c.interrupted(); err != nil {
		return 0, err
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	if n > 0 {
		return n, nil
	}
	return 0, c.readErr
}

// read reads once. An error of the stream is in readErr.
func (c *portableConn) read(b []byte) int {
	c.conn.SetReadDeadline(c.deadline)
	if c.interrupted() != nil { // its deadline may be the one that was replaced
		return 0
	}
	n, err := c.conn.Read(b)
	if err != nil && c.interrupted() == nil {
		c.readErr = err
	}
	return n
}

func (c *portableConn) Write(b []byte) (int, error) {
	c.session.BeforeWait()
	var err error
	if c.reply.size > 0 {
		err = c.reply.goOn(&c.a.unread, slowPortable{c}, b)
	} else {
		err = c.a.unread.write(slowPortable{c}, b, len(b))
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// These methods implement plainConn.

func (c *portableConn) buffered() int       { return len(c.in) }
func (c *portableConn) beginReply(size int) { c.reply.size = size }
func (c *portableConn) endReply()           { c.reply.end(&c.a.unread) }
func (c *portableConn) beforeDecrypt()      { c.session.BeforeDecrypt() }
func (c *portableConn) beforeWait()         { c.session.BeforeWait() }

// A slowPortable is a portableConn as a slowStream.
type slowPortable struct{ *portableConn }

func (s slowPortable) Write(b []byte) (int, error)        { return s.conn.Write(b) }
func (s slowPortable) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }
func (s slowPortable) unsent() int {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return 0
	}
	return unsentOf(raw)
}

func (c *portableConn) Close(last []byte) {
	if last != nil {
		c.a.linger(c, last)
	}
	c.keepUnsent()
	c.conn.Close()
	c.a.count(-1)
	c.a.tasks.Done()
}

func (c *portableConn) closeWrite() error { return c.conn.CloseWrite() }

// keepUnsent sets SO_LINGER, which is as the listening socket has it, to its
// default.
func (c *portableConn) keepUnsent() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.SetLinger(-1)
	}
}

func (c *portableConn) discard(deadline time.Time) error {
	var b [512]byte
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := c.conn.Read(b[:])
	return err
}
