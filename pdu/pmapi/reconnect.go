package pmapi

import (
	"context"
	"fmt"
	"time"
)

// A Backoff says how often a Client without a connection tries to connect.
//
// A request that finds no connection makes one attempt, and fails if that does. If the last
// attempt is not long enough ago, the request waits first, or fails when its context ends or
// Options.Timeout has passed.
// There are no attempts between requests.
//
// A request during which the connection is lost is made again, once, with a new connection.
// But [Client.Store] is not: pmcd may have stored the values. Nor are requests whose time
// is up.
//
// The profile is sent again with the first fetch. The caches are dropped, because pmcd may be
// another one, and [Result.Reconnected] of that fetch is true.
type Backoff struct {
	// Min is the time between two attempts after the first failure. It doubles with each
	// further failure, up to Max. The defaults are 1 and 60 seconds. libpcp's are 5 and 80.
	Min, Max time.Duration
}

type backoffState struct {
	failures int
	last     time.Time // of the last attempt
}

// wait returns how long after an attempt the next one may be made.
func (b *Backoff) wait(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	wait, most := b.Min, b.Max
	if wait <= 0 {
		wait = time.Second
	}
	if most <= 0 {
		most = time.Minute
	}
	for range failures - 1 {
		if wait >= most {
			break
		}
		wait *= 2
	}
	return min(wait, most)
}

// reconnect connects if it may. The caller has acquired c.
func (c *Client) reconnect(ctx context.Context) error {
	b := c.opts.Reconnect
	if b == nil {
		return c.connErr
	}
	if wait := b.wait(c.backoff.failures) - time.Since(c.backoff.last); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		ctx, cancel := c.limited(ctx)
		defer cancel()
		select {
		case <-t.C:
		case <-c.life.Done():
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w; %w before the next attempt to connect", c.connErr, context.Cause(ctx))
		}
	}
	c.backoff.last = time.Now()
	if err := c.connect(ctx); err != nil {
		c.backoff.failures++
		return err
	}
	c.backoff.failures = 0
	c.changes.addConnection()
	c.cache.drop()
	return nil
}
