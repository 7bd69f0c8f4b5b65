package agents

import "context"

// checkpointKey is the key of WithCheckpoint in a context.
type checkpointKey struct{}

// A method that may take long calls Checkpoint now and then, for example for every 64th
// instance. During the call, pmcd may give other requests a turn. Checkpoint returns
// ctx.Err(). If that is an error, the method returns it: the client does not get the reply.
//
// Only the goroutine on which pmcd has called the method calls Checkpoint. It must not hold
// a lock that another request may need.
func Checkpoint(ctx context.Context) error {
	f, ok := ctx.Value(checkpointKey{}).(func())
	if !ok {
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f()
	return ctx.Err()
}

// WithCheckpoint returns a copy of ctx with which [Checkpoint] calls f. It is for callers of
// an Agent. f is called on the goroutine of the method. That goroutine may be locked
// to its thread, with the user id of a client, so f may wait but not do other work on it.
func WithCheckpoint(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, checkpointKey{}, f)
}
