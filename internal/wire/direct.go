package wire

import (
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/rawio"
)

// maxDirectWait is how long a thread blocks in a direct read. A reply that takes
// longer is slow in any case, and is read through the poller.
const maxDirectWait = 4 * time.Millisecond

// setDirect switches to direct reads, or back to the poller, if that is possible.
// The caller is the goroutine that has set reading.
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
	if raw, err := c.directConn.SyscallReadConn(); err == nil { // otherwise it is closed, and reader.Read fails
		c.reader.Init(raw)
	}
	c.conn.SetReadDeadline(c.readDeadline)
}

// readSome reads at least one byte of the stream, or fails at the read deadline.
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

// overdue reports whether the read deadline has passed.
func (c *Client) overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.readDeadline.IsZero() && time.Now().After(c.readDeadline)
}
