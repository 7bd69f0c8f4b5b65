package transport

import (
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// Which Call is next: the Calls that wait for the Agent take turns by their Keys.

// A slot is the right to call the Agent. It is taken from Send until the Agent's method
// has returned. It is guarded by the mutex of the Worker.
type slot struct {
	taken   bool
	waiting fairqueue.Queue[*slotWaiter]
	free    []*slotWaiter // for reuse
}

// A slotWaiter is a Send that waits for the slot.
type slotWaiter struct {
	item fairqueue.Item[*slotWaiter]
	over bool          // it has the slot, or err is set
	err  error         // why it does not get the slot
	wake chan struct{} // has room for one; receives when over is set
}

// maxFreeWaiters is how many slotWaiters are kept for reuse.
const maxFreeWaiters = 32

// acquire takes the slot for c, within c.Timeout. The caller holds mu, which is released
// during the wait.
func (w *Worker) acquire(c *Call) error {
	if err := w.refusal(); err != nil {
		return err
	}
	s := &w.slot
	if !s.taken {
		s.taken = true
		return nil
	}
	x := s.enqueue(c)
	defer s.recycle(x)
	var expired <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		expired = t.C
	}
	w.mu.Unlock()
	c.BeforeWait(false)
	select {
	case <-x.wake:
	case <-expired:
	}
	w.mu.Lock()
	switch {
	case !x.over: // the Agent is busy with others, not late
		s.waiting.Remove(&x.item)
		return ErrLate
	case x.err != nil:
		return x.err
	}
	return w.err // w may have ended since x got the slot
}

// Waiting returns how many Calls wait for their turn.
func (w *Worker) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slot.waiting.Len()
}

// enqueue adds a slotWaiter for c.
func (s *slot) enqueue(c *Call) *slotWaiter {
	var x *slotWaiter
	if last := len(s.free) - 1; last >= 0 {
		x = s.free[last]
		s.free = s.free[:last]
	} else {
		x = &slotWaiter{wake: make(chan struct{}, 1)}
		x.item.Value = x
	}
	s.waiting.Push(&x.item, c.Key)
	return x
}

// recycle keeps x, which is not in waiting, for reuse.
func (s *slot) recycle(x *slotWaiter) {
	if len(s.free) == maxFreeWaiters {
		return
	}
	select {
	case <-x.wake: // its timeout has ended the wait at the same time
	default:
	}
	x.over, x.err = false, nil
	s.free = append(s.free, x)
}

// release gives the slot to the next waiter.
func (s *slot) release() {
	if s.taken = s.waiting.Len() > 0; s.taken {
		s.waiting.Pop().Value.end(nil)
	}
}

// fail ends the wait of all because of err.
func (s *slot) fail(err error) {
	for s.waiting.Len() > 0 {
		s.waiting.Pop().Value.end(err)
	}
}

// end ends the wait of x.
func (x *slotWaiter) end(err error) {
	x.over, x.err = true, err
	x.wake <- struct{}{}
}
