package wire

import (
	"testing"

	"github.com/gopcp/pmcd/internal/transport"
)

// A pendingCall that is used again has no wake-up of its last use. With one, a second wake-up
// would wait, with mu locked, for a caller that waits for mu since its deadline.
func TestNoOldWakeUp(t *testing.T) {
	c := new(Client)
	call := new(transport.Call)
	f := c.newCall(call)
	f.wake <- struct{}{}
	c.recycle(f)
	if again := c.newCall(call); again != f || len(again.wake) != 0 {
		t.Errorf("used again: %v, with %d wake-ups", again == f, len(again.wake))
	}
}
