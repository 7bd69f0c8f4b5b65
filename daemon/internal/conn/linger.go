package conn

import (
	"context"
	"errors"
	"os"
	"time"
)

// linger writes last to the client and waits until the client has closed its side,
// for LingerTime at most.
func (a *Acceptor) linger(c *linuxConn, last []byte) {
	defer context.AfterFunc(a.killed, c.Abort)()
	defer a.lingering.Add(-1)
	c.keepUnsent()
	n := a.lingering.Add(1)
	if _, err := c.Write(last); err != nil || n > MaxLingering || c.closeWrite() != nil {
		return
	}
	// All is written. When the daemon ends it is left to the system to deliver it,
	// once the input that is there by then is read.
	defer context.AfterFunc(a.ending, c.Abort)()
	for end := time.Now().Add(LingerTime); time.Now().Before(end); {
		// Interrupt may have set a deadline of its own just now.
		if err := c.discard(end); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}
