package transport

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents"
)

// Inline returns a Transport that calls the methods of a on the goroutine that
// calls Recv. No call waits for another one, so several goroutines may use the
// Transport at a time only if several goroutines may call a at a time.
//
// The context of a call ends after its timeout. A call of a [Turn] that does not
// return in time is abandoned as by [Local], but other calls go on: the State is
// always Ready. Any other call is waited for.
func Inline(a agents.Agent) *Concurrent {
	c := &Concurrent{agent: a, dead: make(chan struct{}), closed: make(chan struct{})}
	c.pool.New = func() any {
		e := new(inlineCall)
		e.resp.Agent = a
		e.ctx, e.cancel = context.WithCancel(context.Background())
		return e
	}
	c.timer = time.AfterFunc(time.Hour, c.expire)
	c.timer.Stop()
	return c
}

// panicError returns the error of an agent that panicked with v. The deferred
// function that recovered must call it, for the stack.
func panicError(v any) error {
	return fmt.Errorf("agent panicked: %v\n%s", v, debug.Stack())
}

// A Concurrent is a Transport to an Agent in this process, whose calls are
// concurrent: see [Inline].
type Concurrent struct {
	agent     agents.Agent
	maxReply  int
	pool      sync.Pool     // of *inlineCall
	dead      chan struct{} // closed when err is set
	closed    chan struct{} // closed when the Agent is closed, and closeErr is set
	closeOnce sync.Once
	closeErr  error // of the Agent

	mu        sync.Mutex    // guards the following; not held during a call
	running   []*inlineCall // in time so far
	inMethods int           // calls and Notify that have not returned, including abandoned ones
	drained   chan struct{} // closed when inMethods is 0; nil before Close
	timer     *time.Timer
	fires     time.Time // when timer fires; zero if it is not set
	abandoned int64
	err       error
}

var (
	_ Transport      = (*Concurrent)(nil)
	_ AbandonCounter = (*Concurrent)(nil)
)

// LimitReplies sets how long a reply may be, in bytes; 0 is DefaultMaxReply. It must
// be called before c is used.
func (c *Concurrent) LimitReplies(max int) { c.maxReply = max }

// Send implements Transport.
func (c *Concurrent) Send(call *Call) (Reply, error) {
	select {
	case <-c.dead:
		return nil, c.Err()
	default:
		call.inline = inlineReply{to: c, call: call}
		return &call.inline, nil
	}
}

// Notify implements Transport.
func (c *Concurrent) Notify(n Notice) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.inMethods++
	c.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			c.end(panicError(v))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned()
	}()
	tell(c.agent, n)
}

// WantsAttrs implements Transport.
func (c *Concurrent) WantsAttrs() bool {
	_, ok := c.agent.(agents.AttrSetter)
	return ok
}

// State implements Transport: Ready.
func (c *Concurrent) State() State { return Ready }

// Abandoned implements AbandonCounter: how many calls have not returned in time.
func (c *Concurrent) Abandoned() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.abandoned
}

// Pending implements Transport.
func (c *Concurrent) Pending() (Pending, bool) { return Pending{}, false }

// Done implements Transport.
func (c *Concurrent) Done() <-chan struct{} { return c.dead }

// Err implements Transport.
func (c *Concurrent) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close implements Transport. It ends the calls, and waits up to closeGrace for the
// Agent's methods to return. The Agent is closed when they have, if ever.
func (c *Concurrent) Close() error {
	c.end(ErrClosed)
	c.closeOnce.Do(func() {
		a, ok := c.agent.(io.Closer)
		c.mu.Lock()
		idle := c.inMethods == 0
		if c.drained = make(chan struct{}); idle {
			close(c.drained)
		}
		c.mu.Unlock()
		closeAgent := func() {
			defer close(c.closed)
			<-c.drained
			if ok {
				c.closeErr = a.Close()
			}
		}
		if idle {
			closeAgent()
		} else {
			go closeAgent()
		}
	})
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-c.closed:
		return c.closeErr
	case <-t.C:
		return nil
	}
}
