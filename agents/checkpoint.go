package agents

import "context"

// A method that may take long calls Checkpoint now and then, for example for every 64th
// instance. Checkpoint returns ctx.Err(). If that is an error, the method returns it: the
// client does not get the reply.
func Checkpoint(ctx context.Context) error { return ctx.Err() }
