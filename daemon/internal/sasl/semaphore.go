package sasl

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// A semaphore limits how many logins, or calls of the library, are in progress at a time.
type semaphore struct{ *fairqueue.Limiter }

func newSemaphore(n int) semaphore { return semaphore{fairqueue.NewLimiter(int64(n))} }

// checkEvery is how often Login.Check is called for a login that waits to begin.
const checkEvery = time.Second

// A checkError is an error of Login.Check.
type checkError struct{ error }

func (e checkError) Unwrap() error { return e.error }

// acquire waits for a use, which the caller must End. If it has to wait it calls waits, which
// may be nil, once.
func (s semaphore) acquire(ctx context.Context, l *Login, waits func()) (*fairqueue.Use, error) {
	u := new(fairqueue.Use)
	if s.Start(u, 1, &l.Key) {
		return u, nil
	}
	if waits != nil {
		waits()
	}
	var check <-chan time.Time
	if l.Check != nil {
		t := time.NewTicker(checkEvery)
		defer t.Stop()
		check = t.C
	}
	for {
		select {
		case <-u.Begun():
			return u, nil
		case <-check:
			if err := l.Check(); err != nil {
				u.End()
				return nil, checkError{err}
			}
		case <-ctx.Done():
			u.End()
			return nil, context.Cause(ctx)
		}
	}
}

// acquireFor is acquire for a use that ends after d at the latest. The call that has it then goes
// on without one: it may wait for something else.
func (s semaphore) acquireFor(ctx context.Context, l *Login, d time.Duration) (release func(), err error) {
	u, err := s.acquire(ctx, l, nil)
	if err != nil {
		return nil, err
	}
	t := time.AfterFunc(d, u.End)
	return func() {
		t.Stop()
		u.End()
	}, nil
}
