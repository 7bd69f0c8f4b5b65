package attack

import (
	"context"
	"sync"
	"time"
)

// A pacer gives out a number of units a second.
type pacer struct {
	rate float64 // 0 is any number

	mu   sync.Mutex // guards next
	next time.Time
}

// take waits for n units, or returns false when ctx ends.
func (p *pacer) take(ctx context.Context, n int) bool {
	if p.rate == 0 {
		return ctx.Err() == nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	at := p.next
	p.next = at.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	p.mu.Unlock()
	return pause(ctx, at.Sub(now))
}

// pause waits, or returns false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
