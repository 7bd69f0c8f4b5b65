package sasl

import (
	"context"
)

// For the tests in package sasl_test.

// StepNow is Step that counts no failure and leaves the Exchange open.
func (e *Exchange) StepNow(ctx context.Context, in []byte) error {
	_, err := e.step(ctx, in)
	return err
}

// SendRaw sends a packet to the child.
func (e *Exchange) SendRaw(b []byte) { e.sock.Write(b) }

// Await waits until the child sends a message or ends.
func (e *Exchange) Await(ctx context.Context) error {
	_, err := e.receive(ctx)
	return err
}

// Logins returns how many logins are under way.
func (h *Host) Logins() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.exchanges)
}

// Waiting returns how many logins wait to begin.
func (h *Host) Waiting() int { return h.logins.Waiting() }
