package transporttest

import (
	"sync/atomic"
	"testing"
)

// A Waiter is a transport.Waiter that counts the calls of BeforeWait.
type Waiter struct{ turns, replies atomic.Int32 }

// BeforeWait implements transport.Waiter.
func (w *Waiter) BeforeWait(sent bool) {
	if sent {
		w.replies.Add(1)
	} else {
		w.turns.Add(1)
	}
}

// Turns returns how often Send was about to wait.
func (w *Waiter) Turns() int { return int(w.turns.Load()) }

// Waits returns the number of all calls.
func (w *Waiter) Waits() int { return w.Turns() + int(w.replies.Load()) }

// A Wait is a reason why a Call waits.
type Wait struct {
	Name string

	// Start has another goroutine make a Call with w that waits. What it returns ends the
	// wait and is always called.
	Start func(t *testing.T, w *Waiter) (end func())
}

// TestBeforeWait checks that BeforeWait is called before each of the waits. Eventually is
// that of package testutil.
func TestBeforeWait(t *testing.T, eventually func(t testing.TB, what string, cond func() bool), waits []Wait) {
	for _, wait := range waits {
		t.Run(wait.Name, func(t *testing.T) {
			w := new(Waiter)
			defer wait.Start(t, w)()
			eventually(t, "BeforeWait is called", func() bool { return w.Waits() > 0 })
		})
	}
}
