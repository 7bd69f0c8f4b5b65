package sasl

import (
	"context"
	"time"
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

// AddFailure counts a failed login.
func (h *Host) AddFailure(addr, user string) { h.delays.add(addr, user) }

// A Delays is delays.
type Delays struct{ *delays }

func NewDelays() Delays { return Delays{newDelays()} }

// Add counts a failure and returns for how long its answer is held back.
func (d Delays) Add(addr, user string) time.Duration { return time.Until(d.add(addr, user)) }

func (d Delays) Len() int { return len(d.pairs) }

const (
	MaxPairs    = maxPairs
	ForgetAfter = forgetAfter
	MaxHold     = maxHold
)
