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
// calls Recv. Nothing is faster, but that goroutine waits while a method waits,
// whatever the timeout. It is for agents that only read memory, such as that of
// domain 2.
func Inline(a agents.Agent) Transport {
	c := &inline{dead: make(chan struct{})}
	c.resp.Agent = a
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// panicError returns the error of an agent that panicked with v. The deferred
// function that recovered must call it, for the stack.
func panicError(v any) error {
	return fmt.Errorf("agent panicked: %v\n%s", v, debug.Stack())
}

type inline struct {
	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	dead   chan struct{} // closed when err is set

	mu     sync.Mutex // held during a call; guards the following
	resp   Responder
	err    error
	closed bool
}

// An inlineReply is the Reply to a Call. It is part of the Call, so that Send
// allocates nothing.
type inlineReply struct {
	to   *inline
	call *Call
}

func (c *inline) Send(call *Call) (Reply, error) {
	select {
	case <-c.dead:
		return nil, c.Err()
	default:
		call.inline = inlineReply{to: c, call: call}
		return &call.inline, nil
	}
}

// Recv calls the Agent.
func (r *inlineReply) Recv(dst []byte) ([]byte, error) { return r.to.recv(r.call, dst) }

func (c *inline) recv(call *Call, dst []byte) (reply []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return dst, c.err
	}
	defer func() {
		if v := recover(); v != nil {
			c.end(panicError(v))
			reply, err = dst, c.err
		}
	}()
	call.Began = time.Now()
	reply, err = c.resp.Reply(c.ctx, call, dst)
	call.Done = time.Now()
	return reply, err
}

func (c *inline) Notify(n Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.end(panicError(v))
		}
	}()
	tell(c.resp.Agent, n)
}

func (c *inline) WantsAttrs() bool {
	_, ok := c.resp.Agent.(agents.AttrSetter)
	return ok
}

func (c *inline) State() State { return Ready }

func (c *inline) Pending() (Pending, bool) { return Pending{}, false }

func (c *inline) Done() <-chan struct{} { return c.dead }

func (c *inline) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end ends c for the reason err, unless it has ended. The caller holds mu.
func (c *inline) end(err error) {
	if c.err == nil {
		c.err = err
		c.cancel()
		close(c.dead)
	}
}

func (c *inline) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.end(ErrClosed)
	if a, ok := c.resp.Agent.(io.Closer); ok {
		return a.Close()
	}
	return nil
}

var _ Transport = (*inline)(nil)
