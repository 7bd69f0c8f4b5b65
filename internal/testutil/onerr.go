package testutil

import "context"

// OnErr returns a copy of ctx whose Err calls f, unless ctx has ended. So f is called at
// each Err of the context.
func OnErr(ctx context.Context, f func()) context.Context { return onErr{ctx, f} }

type onErr struct {
	context.Context
	f func()
}

func (c onErr) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.f()
	return c.Context.Err()
}
