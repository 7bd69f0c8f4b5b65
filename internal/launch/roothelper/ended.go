package roothelper

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waitExit waits until the root helper or ctx has ended. It reports whether the
// root helper has ended.
func (c *Client) waitExit(ctx context.Context) bool {
	if c.cmd == nil {
		return false
	}
	c.waitOnce.Do(func() {
		go func() { // ends when the root helper has ended
			c.cmd.Wait()
			close(c.exited)
		}()
	})
	select {
	case <-c.exited:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ended returns the text of ErrLost and how the root helper ended, as in ": signal 15
// (SIGTERM)". It is called when Lost is closed, and waits at most timeout for the status.
func (c *Client) Ended(timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if !c.waitExit(ctx) {
		return ErrLost.Error()
	}
	return ErrLost.Error() + HowEnded(c.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// HowEnded returns what follows "has ended" in a message about a process of this program.
func HowEnded(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return fmt.Sprintf(": exit code %d", status.ExitStatus())
	}
	text := fmt.Sprintf(": signal %d (%s)", status.Signal(), unix.SignalName(status.Signal()))
	if status.Signal() == syscall.SIGKILL {
		text += ", sent by a user or the out-of-memory killer"
	}
	return text
}
