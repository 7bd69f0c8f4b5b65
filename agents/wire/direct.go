package wire

import (
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/rawio"
)

// maxDirectWait is how long a thread waits itself. What takes longer is slow anyway.
const maxDirectWait = 4 * time.Millisecond

// setDirect has the stream read directly, or by the poller again, if that is
// possible. The caller is the one who reads.
func (c *Client) setDirect(on bool) {
	if c.directConn == nil || on == c.direct {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.directConn.Direct(on) {
		return
	}
	c.direct = on
	if on {
		return
	}
	if raw, err := c.directConn.SyscallReadConn(); err == nil { // else it is closed, as get will find
		c.reader.Init(raw)
	}
	c.conn.SetReadDeadline(c.readDeadline)
}

// readSome reads some of the stream, until the deadline for reading.
func (c *Client) readSome(b []byte) (int, error) {
	for c.direct {
		n, err := c.directConn.ReadDirect(b[:min(len(b), rawio.MaxSyscallBytes)], maxDirectWait)
		if err != syscall.EAGAIN {
			return n, err
		}
		if c.setDirect(false); c.direct && c.overdue() {
			return 0, os.ErrDeadlineExceeded
		}
	}
	return c.reader.Read(b)
}

// overdue reports whether the deadline for reading has passed.
func (c *Client) overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.readDeadline.IsZero() && time.Now().After(c.readDeadline)
}
