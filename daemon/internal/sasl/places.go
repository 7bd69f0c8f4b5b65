package sasl

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// places limit how many logins, or calls of the library, are in progress at a time.
type places struct{ *fairqueue.Limiter }

func newPlaces(n int) places { return places{fairqueue.NewLimiter(int64(n))} }

// enter waits for a place, which the caller must End. If it has to wait it calls look, which
// may be nil, once.
func (p places) enter(ctx context.Context, key fairqueue.Key, look func()) (*fairqueue.Use, error) {
	u := p.Start(1, key)
	if look != nil && !u.HasBegun() {
		look()
	}
	select {
	case <-u.Begun():
		return u, nil
	case <-ctx.Done():
		u.End()
		return nil, context.Cause(ctx)
	}
}

// enterFor is enter for a place that goes to the next one after d, because the call that
// has it may wait for something else by then.
func (p places) enterFor(ctx context.Context, key fairqueue.Key, d time.Duration) (leave func(), err error) {
	u, err := p.enter(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	t := time.AfterFunc(d, u.End)
	return func() {
		t.Stop()
		u.End()
	}, nil
}
