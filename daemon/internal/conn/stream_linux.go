package conn

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/internal/rawio"
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
	rest, err := c.writeNow(b)
	if err == nil && len(rest) > 0 {
		err = c.writeSlowly(&whole{rest, len(b)})
	}
	if err != nil {
		return 0, c.whyEnded(err)
	}
	return len(b), nil
}

func (c *linuxConn) WriteFrom(src Source) error {
	c.limitNotSent()
	return c.writeSource(src)
}

// maxNotSent is how many bytes of a Source the system takes beyond what the client's window has room
// for. By default that is up to 4 MB on loopback: then 900 clients that asked for 16 MB each, and did
// not read, had all of the memory that the system has for TCP, 2.3 GB.
const maxNotSent = 256 << 10

func (c *linuxConn) limitNotSent() {
	if !c.peer.Unix {
		c.control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxNotSent) })
	}
}

// writeSource writes src, at the pace of the client if need be.
func (c *linuxConn) writeSource(src Source) error {
	_, done, err := write(src, quickPiece, quickPieces, c.writeNow)
	if err == nil && !done {
		err = c.writeSlowly(src)
	}
	return c.whyEnded(err)
}

// writeSlowly writes the rest of src at the pace of the client.
func (c *linuxConn) writeSlowly(src Source) error {
	c.session.BeforeWait()
	defer c.session.BeforeWait() // whatever comes next
	c.leaveBlocking()
	if c.state == detached {
		c.attach()
	}
	return writeSlowly(slowLinux{c}, src, c.session.Unread())
}

// whyEnded returns the error of a write: that of a client that was evicted is not err.
func (c *linuxConn) whyEnded(err error) error {
	if evicted := c.interrupted(); err != nil && errors.As(evicted, new(*quota.Error)) {
		return evicted
	}
	return err
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

func (c *linuxConn) buffered() int { return len(c.in) }
func (c *linuxConn) beforeWork()   { c.session.BeforeWork() }
func (c *linuxConn) beforeWait()   { c.session.BeforeWait() }

// A slowLinux is a linuxConn as a slowStream.
type slowLinux struct{ *linuxConn }

func (s slowLinux) SetWriteDeadline(t time.Time) error { return s.stream.SetWriteDeadline(t) }
func (s slowLinux) unsent() int                        { return unsentOf(s.raw) }

// writeFrom implements slowStream. It takes a slot for each piece. While it waits it has neither.
func (s slowLinux) writeFrom(src Source) (n int, err error) {
	first := true
	rerr := s.raw.Write(func(fd uintptr) bool {
		if first {
			first = false
			if ready, err := rawio.Poll(fd, unix.POLLOUT); err == nil && ready == 0 {
				return false
			}
		}
		for {
			s.session.BeforeWork()
			var k int
			var done, full bool
			k, done, err = write(src, slowPiece, 1, func(b []byte) (rest []byte, err error) {
				rest, err = s.writer.WriteFD(fd, b)
				full = len(rest) > 0
				return rest, err
			})
			n += k
			s.session.BeforeWait() // others would wait for all that the client takes
			if done || err != nil {
				return true
			}
			if full {
				return false
			}
		}
	})
	if err == nil {
		err = rerr
	}
	return n, err
}

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
