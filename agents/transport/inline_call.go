package transport

import (
	"context"
	"errors"
	"time"

	"github.com/gopcp/pmcd/agents/internal/responder"
)

// How a Concurrent calls its Agent.

// An inlineReply is the Reply to a Call. It is part of the Call, so that Send
// allocates nothing.
type inlineReply struct {
	to   *Concurrent
	call *Call
}

// An inlineCall is a call of the Agent. It is reused for later calls, but not if it
// was abandoned: then the Agent may use its memory for ever.
type inlineCall struct {
	to       *Concurrent
	resp     responder.Responder
	call     Call // a copy with its own memory for the request
	turn     *Turn
	ctx      context.Context // ends when the call is over before it has returned
	cancel   context.CancelFunc
	began    time.Time
	answered time.Time
	deadline time.Time // zero if there is none
	reply    []byte    // begins with what the caller of Recv has given to it
	err      error     // guarded by mu until the call is over
	at       int       // index in running; -1 if the call is over; guarded by mu
}

// Recv calls the Agent.
func (r *inlineReply) Recv(dst []byte) ([]byte, error) {
	c, call := r.to, r.call
	e := c.pool.Get().(*inlineCall)
	e.to, e.resp.Max = c, c.maxReply
	e.call = Call{Origin: call.Origin, Profile: call.Profile, Timeout: call.Timeout, Req: append(e.call.Req[:0], call.Req...)}
	e.reply = append(e.reply[:0], dst...)
	if e.turn = call.Turn; e.turn != nil {
		e.turn.yield(e)
	} else {
		e.serve()
	}
	if e.err != nil {
		return dst, e.err // e may be in use
	}
	call.Began, call.Done = e.began, e.answered
	reply := e.reply
	e.reply = dst[:0] // is used again in place of the memory of reply
	c.keep(e)
	return reply, nil
}

// keep keeps e, which is over, for later calls.
func (c *Concurrent) keep(e *inlineCall) {
	e.call.Profile, e.turn = nil, nil
	if cap(e.call.Req) > maxFreeBuffer {
		e.call.Req = nil
	}
	if cap(e.reply) > maxFreeBuffer {
		e.reply = nil
	}
	c.pool.Put(e)
}

// serve makes the call e on this goroutine. It reports false if the call was
// abandoned and has a Turn, which goes on elsewhere.
func (e *inlineCall) serve() (inTime bool) {
	c := e.to
	if !c.begin(e) {
		return true
	}
	returned := false
	var err error
	defer func() {
		if v := recover(); v != nil {
			c.end(panicError(v))
		} else if !returned {
			c.end(errors.New("agent has ended the goroutine that called it"))
		}
		inTime = c.done(e, err)
	}()
	e.reply, err = e.resp.Reply(e.ctx, e.call.request(), e.reply)
	returned = true
	return
}

// begin adds e to the calls that are running. It reports false if c has ended.
func (c *Concurrent) begin(e *inlineCall) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e.began, e.deadline, e.err = now, time.Time{}, c.err
	if c.err != nil {
		return false
	}
	e.at = len(c.running)
	c.running = append(c.running, e)
	c.inMethods++
	if t := e.call.Timeout; t > 0 {
		e.deadline = now.Add(t)
		// A call that returns does not stop the timer, and a later deadline does not
		// reset it: that would cost more than a quick call.
		if c.fires.IsZero() || e.deadline.Before(c.fires) {
			c.expireAt(e.deadline)
		}
	}
	return true
}

// done is called when the Agent's method has returned. It reports whether e was not
// over before.
func (c *Concurrent) done(e *inlineCall, err error) (inTime bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if inTime = e.at >= 0; inTime {
		c.remove(e)
		e.err, e.answered = err, now
	}
	c.returned()
	return inTime || e.turn == nil
}

// remove removes e from the calls that are running. The caller holds mu.
func (c *Concurrent) remove(e *inlineCall) {
	last := len(c.running) - 1
	c.running[e.at] = c.running[last]
	c.running[e.at].at = e.at
	c.running[last] = nil
	c.running = c.running[:last]
	e.at = -1
}

// returned is called when a method of the Agent has returned. The caller holds mu.
func (c *Concurrent) returned() {
	c.inMethods--
	if c.inMethods == 0 && c.drained != nil {
		close(c.drained)
	}
}

// expireAt sets timer. The caller holds mu.
func (c *Concurrent) expireAt(t time.Time) {
	c.fires = t
	c.timer.Reset(time.Until(t))
}

// expire abandons the calls whose deadlines have passed.
func (c *Concurrent) expire() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fires = time.Time{}
	var next time.Time
	for i := len(c.running) - 1; i >= 0; i-- { // remove moves the last one
		switch e := c.running[i]; {
		case e.deadline.IsZero():
		case !now.Before(e.deadline):
			c.abandoned++
			c.abandon(e, ErrLate)
		case next.IsZero() || e.deadline.Before(next):
			next = e.deadline
		}
	}
	if !next.IsZero() {
		c.expireAt(next)
	}
}

// abandon ends the wait for e. The Turn continues on another goroutine, and the
// Agent keeps this one. The caller holds mu.
func (c *Concurrent) abandon(e *inlineCall, err error) {
	c.remove(e)
	e.err = err
	e.cancel()
	if e.turn != nil {
		go e.turn.resume()
	}
}

// end ends c for the reason err, unless it has ended, and with it all calls.
func (c *Concurrent) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.timer.Stop()
	close(c.dead)
	for len(c.running) > 0 {
		c.abandon(c.running[0], err)
	}
}
