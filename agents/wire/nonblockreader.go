package wire

import (
	"io"
	"os"
	"syscall"
	"time"
)

// A nonblockReader is an io.Reader of what a RawConn stands for. It is used by one
// goroutine at a time, and allocates nothing.
type nonblockReader struct {
	raw  syscall.RawConn
	unix bool                  // a Unix socket: what it holds is looked at first
	try  func(fd uintptr) bool // made once: a closure a read would cost memory

	b   []byte
	n   int
	err error
}

func (r *nonblockReader) init(raw syscall.RawConn) {
	r.raw = raw
	if r.try != nil {
		return
	}
	r.try = func(fd uintptr) bool {
		if r.unix {
			r.n, r.err = ReadNoRights(fd, r.b)
		} else {
			r.n, r.err = ReadNow(fd, r.b)
		}
		return r.err != syscall.EAGAIN
	}
}

// Read waits for input, until the deadline for reading. b must not be empty.
func (r *nonblockReader) Read(b []byte) (int, error) {
	r.b, r.n, r.err = b[:min(len(b), maxSyscallBytes)], 0, nil
	err := r.raw.Read(r.try)
	r.b = nil
	switch {
	case err != nil:
		return 0, err
	case r.err == nil && r.n == 0:
		return 0, io.EOF
	}
	return r.n, r.err
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
		n, err := c.in.ReadDirect(b[:min(len(b), maxSyscallBytes)], patience)
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
