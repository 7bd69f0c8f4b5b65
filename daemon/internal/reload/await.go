package reload

import (
	"context"
	"time"
)

// await calls f on another goroutine and returns what f returns. If ctx ends first, await
// returns an error and does not wait for f, because a file system or a name server can
// take any time to answer. Wait waits for f then. Step is what f does: see Overdue.
func await[T any](ctx context.Context, r *Reloader, step string, f func() T) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	r.step(step)
	done := make(chan struct{})
	var got T
	go func() {
		defer close(done)
		got = f()
	}()
	select {
	case <-done:
		return got, ctx.Err() // f may have failed because of ctx
	case <-ctx.Done():
		r.abandoned = append(r.abandoned, done)
		return v, ctx.Err()
	}
}

// Wait waits for the calls that await did not wait for, at most for grace.
func (r *Reloader) Wait(grace time.Duration) {
	end := time.NewTimer(grace)
	defer end.Stop()
	for _, done := range r.abandoned {
		select {
		case <-done:
		case <-end.C:
			return
		}
	}
}
