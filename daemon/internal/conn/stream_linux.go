package conn

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/rawio"
)

func (c *linuxConn) SetReadDeadline(t time.Time) { c.deadline = t }

// tryRead reads when there may be input. Only then does it take a buffer. It
// reports false if there is none.
func (c *linuxConn) tryRead(fd uintptr) bool {
	buf := buffers.Get().(*buffer)
	n, err := c.readNow(fd, buf[:])
	c.buf, c.in = buf, buf[:n]
	if n == 0 {
		c.dropInput()
	}
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

// dropInput gives the buffer back.
func (c *linuxConn) dropInput() {
	if c.buf != nil {
		buffers.Put(c.buf)
	}
	c.buf, c.in = nil, nil
}

// readNow reads what is there from the connection's descriptor, without waiting.
func (c *linuxConn) readNow(fd uintptr, b []byte) (n int, err error) {
	b = b[:min(len(b), rawio.MaxSyscallBytes)]
	switch {
	case c.rights:
		n, err = rawio.ReadNoRights(fd, b)
	case c.state == blocking:
		n, err = rawio.Recv(fd, b)
	default:
		n, err = rawio.Read(fd, b)
	}
	if err == rawio.ErrRights {
		err = ErrRights
	}
	return n, err
}

func (c *linuxConn) Read(b []byte) (int, error) {
	if err := c.interrupted(); err != nil {
		return 0, err
	}
	if n := copy(b, c.in); n > 0 {
		full := len(c.in) == len(buffer{}) // then there may be more
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
	rest, err := c.writer.Write(b)
	if err == nil && len(rest) > 0 {
		c.leaveBlocking()
		if c.state == detached {
			c.attach()
		}
		err = writeSlowly(c.stream, rest)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// discard implements lingerer.
func (c *linuxConn) discard(deadline time.Time) error {
	var b [512]byte
	if err := c.stream.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := c.readStream(b[:])
	return err
}
