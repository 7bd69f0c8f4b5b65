package wire

import (
	"io"
	"os"
	"syscall"
	"time"
)

// A getter is an io.Reader of what a RawConn stands for. It is used by one
// goroutine at a time, and allocates nothing.
type getter struct {
	raw  syscall.RawConn
	unix bool                  // a Unix socket: what it holds is looked at first
	try  func(fd uintptr) bool // made once: a closure a read would cost memory

	b   []byte
	n   int
	err error
}

func (g *getter) init(raw syscall.RawConn) {
	g.raw = raw
	if g.try != nil {
		return
	}
	g.try = func(fd uintptr) bool {
		if g.unix {
			g.n, g.err = ReadNoRights(fd, g.b)
		} else {
			g.n, g.err = ReadNow(fd, g.b)
		}
		return g.err != syscall.EAGAIN
	}
}

// Read waits for input, until the deadline for reading. b must not be empty.
func (g *getter) Read(b []byte) (int, error) {
	g.b, g.n, g.err = b[:min(len(b), atOnce)], 0, nil
	err := g.raw.Read(g.try)
	g.b = nil
	switch {
	case err != nil:
		return 0, err
	case g.err == nil && g.n == 0:
		return 0, io.EOF
	}
	return g.n, g.err
}

// patience is how long a thread waits itself. What takes longer is slow anyway.
const patience = 4 * time.Millisecond

// setDirect has the stream read directly, or by the poller again, if that is
// possible. The caller is the one who reads.
func (c *Client) setDirect(on bool) {
	if c.in == nil || on == c.direct {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.in.Direct(on) {
		return
	}
	c.direct = on
	if on {
		return
	}
	if raw, err := c.in.SyscallReadConn(); err == nil { // else it is closed, as get will find
		c.get.init(raw)
	}
	c.conn.SetReadDeadline(c.until)
}

// fill reads some of the stream, until the deadline for reading.
func (c *Client) fill(b []byte) (int, error) {
	for c.direct {
		n, err := c.in.ReadDirect(b[:min(len(b), atOnce)], patience)
		if err != syscall.EAGAIN {
			return n, err
		}
		if c.setDirect(false); c.direct && c.overdue() {
			return 0, os.ErrDeadlineExceeded
		}
	}
	return c.get.Read(b)
}

// overdue reports whether the deadline for reading has passed.
func (c *Client) overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.until.IsZero() && time.Now().After(c.until)
}
