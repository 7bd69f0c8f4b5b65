package transport

import (
	"context"
	"sync"

	"github.com/gopcp/pmcd/agents"
)

// A checkpoint is where a call of an Agent in this process lets others compute: it is
// what agents.Checkpoint calls. One call at a time uses it.
type checkpoint struct {
	mu    sync.Mutex // guards the following: an Agent may call Checkpoint on several goroutines
	place Place      // of the call; nil if it has none
	own   bool       // place is not the caller's

	// requeue says that the call waits for another place. Otherwise it goes on without one:
	// others wait for the Agent, and must not wait for this call's turn as well.
	requeue bool
}

// context returns a context for calls that use c.
func (c *checkpoint) context() (context.Context, context.CancelFunc) {
	return context.WithCancel(agents.WithCheckpoint(context.Background(), c.yield))
}

// begin is called before the Agent's method, in the place p.
func (c *checkpoint) begin(p Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place, c.own = p, false
}

// end is called when the method has returned.
func (c *checkpoint) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own {
		c.place.Leave()
	}
	c.place, c.own = nil, false
}

// yield gives the place back if others have waited for long. A place that it enters is
// another one than that of the caller of Recv: if the call is abandoned meanwhile, the
// caller goes on and uses its own.
func (c *checkpoint) yield() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.place == nil || !c.place.Overdue() {
		return
	}
	if !c.requeue {
		c.place.Leave()
		c.place = nil
		return
	}
	next := c.place.Fork()
	c.place.Leave()
	next.EnterAgain()
	c.place, c.own = next, true
}
