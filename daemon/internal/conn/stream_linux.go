package conn

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/daemon/internal/quota"
)

func (c *linuxConn) SetReadDeadline(t time.Time) { c.deadline = t }

// smallInput is how much Wait reads of a connection while the Handler is busy, in bytes. It
// is enough for most requests.
const smallInput = 128

// tryRead reads when there may be input. Only then does it take a buffer. It
// reports false if there is none.
func (c *linuxConn) tryRead(fd uintptr) bool {
	if c.loop.a.handler.Busy() {
		return c.tryReadLittle(fd)
	}
	buf := buffers.Get().(*buffer)
	n, err := c.readNow(fd, buf[:])
	c.buf, c.in = buf, buf[:n]
	if n == 0 {
		c.dropInput()
	}
	return c.hasRead(n, err)
}

// hasRead notes the result of a read that did not wait. It reports false if there was
// nothing to read.
func (c *linuxConn) hasRead(n int, err error) bool {
	switch {
	case n > 0:
	case err == syscall.EAGAIN:
		return false
	case err == nil:
		c.readErr = io.EOF
	default:
		c.readErr = err
	}
	return true
}

// tryReadLittle is tryRead for a Session that will have to wait before it reads: very
// many may do that at a time.
func (c *linuxConn) tryReadLittle(fd uintptr) bool {
	var buf [smallInput]byte
	n, err := c.readNow(fd, buf[:])
	c.in = append([]byte(nil), buf[:n]...)
	return c.hasRead(n, err)
}

// dropInput gives the buffer back.
func (c *linuxConn) dropInput() {
	if c.buf != nil {
		buffers.Put(c.buf)
	}
	c.buf, c.in = nil, nil
}

// Compact implements Conn.
func (c *linuxConn) Compact() {
	if c.buf == nil || len(c.in) > len(c.buf)/4 {
		return
	}
	in := append([]byte(nil), c.in...)
	c.dropInput()
	c.in = in
}

// readNow reads what is there from the connection's descriptor, without waiting.
func (c *linuxConn) readNow(fd uintptr, b []byte) (n int, err error) {
	b = b[:min(len(b), rawio.MaxSyscallBytes)]
	if c.rights {
		n, err = rawio.ReadNoRights(fd, b)
	} else {
		n, err = rawio.Recv(fd, b)
	}
	if err == rawio.ErrRights { // never wrapped
		err = ErrRights
	}
	return n, err
}

func (c *linuxConn) Read(b []byte) (int, error) {
	if err := c.interrupted(); err != nil {
		return 0, err
	}
	if n := copy(b, c.in); n > 0 {
		full := len(c.in) == len(buffer{}) || len(c.in) == smallInput // then there may be more
		if c.in = c.in[n:]; len(c.in) > 0 {
			return n, nil
		}
		c.dropInput()
		if full && n < len(b) {
			n += c.readMore(b[n:])
		}
		return n, nil
	}
	if n := c.readMore(b); n > 0 {
		return n, nil
	}
	for c.readErr == nil {
		if n, err := c.readUntil(b, c.deadline); n > 0 || err != nil {
			return n, err
		}
	}
	if err := c.interrupted(); err != nil { // before an Abort that has ended the input
		return 0, err
	}
	return 0, c.readErr
}

// readMore reads what is there without waiting. An error is in readErr.
func (c *linuxConn) readMore(b []byte) (n int) {
	if c.readErr != nil || len(b) == 0 {
		return 0
	}
	var err error
	c.control(func(fd uintptr) { n, err = c.readNow(fd, b) })
	switch {
	case err == syscall.EAGAIN:
	case err != nil:
		c.readErr = err
	case n == 0:
		c.readErr = io.EOF
	}
	return n
}

// readUntil waits for input until the deadline. It returns 0 and nil if the wait
// has ended before for no reason that matters.
func (c *linuxConn) readUntil(b []byte, deadline time.Time) (n int, err error) {
	c.session.BeforeWait()
	c.leaveBlocking()
	if c.state == detached {
		c.attach()
	}
	c.timed = true
	c.stream.SetReadDeadline(deadline)
	if err := c.interrupted(); err != nil {
		return 0, err
	}
	n, err = c.readStream(b)
	switch {
	case c.interrupted() != nil:
		return n, c.interrupted()
	case errors.Is(err, os.ErrDeadlineExceeded):
		if deadline.IsZero() || time.Now().Before(deadline) { // the sweep's
			return n, nil
		}
		return n, err
	}
	c.readErr = err
	return n, nil
}

// readStream reads at least one byte by Go's poller, until its deadline.
func (c *linuxConn) readStream(b []byte) (n int, err error) {
	if !c.rights {
		return c.stream.Read(b)
	}
	rerr := c.raw.Read(func(fd uintptr) bool {
		n, err = c.readNow(fd, b)
		return err != syscall.EAGAIN
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case n == 0 && err == nil:
		return 0, io.EOF
	}
	return n, err
}

func (c *linuxConn) Write(b []byte) (int, error) {
	rest, err := b, error(nil)
	if c.reply.unread == nil {
		rest, err = c.writeNow(b)
	}
	if err == nil && len(rest) > 0 {
		c.session.BeforeWait()
		c.leaveBlocking()
		if c.state == detached {
			c.attach()
		}
		announced := c.reply.size > 0
		if !announced {
			c.reply.size = len(b)
		}
		err = c.reply.write(slowLinux{c}, rest, c.session.Unread())
		if !announced {
			c.reply.end()
		}
	}
	if gaveWay := c.interrupted(); err != nil && errors.As(gaveWay, new(*quota.Error)) {
		err = gaveWay
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// writeNow writes b without waiting, and returns what is left.
func (c *linuxConn) writeNow(b []byte) (rest []byte, err error) {
	for len(b) > rawio.MaxSyscallBytes {
		left, err := c.writer.Write(b[:rawio.MaxSyscallBytes])
		b = b[rawio.MaxSyscallBytes-len(left):]
		if len(left) > 0 || err != nil {
			return b, err
		}
	}
	return c.writer.Write(b)
}

// These methods implement plainConn.

func (c *linuxConn) buffered() int       { return len(c.in) }
func (c *linuxConn) beginReply(size int) { c.reply.size = size }
func (c *linuxConn) endReply()           { c.reply.end() }
func (c *linuxConn) beforeDecrypt()      { c.session.BeforeDecrypt() }
func (c *linuxConn) beforeWait()         { c.session.BeforeWait() }

// A slowLinux is a linuxConn as a slowStream.
type slowLinux struct{ *linuxConn }

func (s slowLinux) Write(b []byte) (int, error)        { return s.stream.Write(b) }
func (s slowLinux) SetWriteDeadline(t time.Time) error { return s.stream.SetWriteDeadline(t) }
func (s slowLinux) unsent() int                        { return unsentOf(s.raw) }

// discard reads and drops input until the deadline, whether the connection is interrupted or
// not. It is for linger.
func (c *linuxConn) discard(deadline time.Time) error {
	var b [512]byte
	if err := c.stream.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := c.readStream(b[:])
	return err
}
