package transport

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// How a Worker calls its Agent.

// start notes that the wait for the reply to e begins. The caller holds mu.
func (w *Worker) start(e *queuedCall) {
	e.began, e.deadline, e.err = time.Now(), time.Time{}, nil
	e.at = len(w.running)
	w.running = append(w.running, e)
	if t := e.call.Timeout; t > 0 {
		e.deadline = e.began.Add(t)
		if w.fires.IsZero() || e.deadline.Before(w.fires) {
			w.expireAt(e.deadline)
		}
	}
}

// A work is Notices to deliver, and then a call to make; nil is none.
type work struct {
	call  *queuedCall
	ahead []Notice
}

// wake has the goroutine of w deliver Notices and make the next call, unless the Agent is
// being called or a Coroutine will do it. The caller holds mu.
func (w *Worker) wake() {
	if w.inMethods > 0 || w.err != nil {
		return
	}
	var todo work
	switch e := w.next; {
	case e != nil && e.at >= 0 && e.call.Coroutine != nil:
		return
	case e != nil:
		w.next, todo = nil, work{e, e.ahead}
	case w.notices.Any():
		todo.ahead = w.notices.Take()
	default:
		return
	}
	w.inMethods++
	w.work <- todo // has room: the last one is done
}

// run is the goroutine of w.
func (w *Worker) run() {
	for todo := range w.work {
		w.do(todo.call, todo.ahead)
	}
}

// serve implements suspendedCall.
func (e *queuedCall) serve() bool {
	w := e.worker
	w.mu.Lock()
	switch {
	case w.concurrent && w.err != nil:
		e.err = w.err
		w.mu.Unlock()
		return true
	case w.concurrent:
		w.start(e)
	case w.inMethods > 0 || w.next != e || e.at < 0: // the Agent has Notices to handle first, or the call is over
		e.call.Coroutine = nil
		w.wake()
		w.mu.Unlock()
		e.await(&e.call)
		return true
	default:
		w.next = nil
	}
	w.inMethods++
	e.coroutine = e.call.Coroutine
	w.mu.Unlock()
	return w.do(e, e.ahead)
}

// do delivers the Notices in ahead and then makes the call e, unless e is nil or was
// abandoned. It reports whether a Coroutine that waits for e continues on this goroutine. The
// caller has counted it in inMethods.
func (w *Worker) do(e *queuedCall, ahead []Notice) (here bool) {
	var err error
	returned := false
	defer func() {
		if !returned {
			w.fail(errors.New("agent has ended the goroutine that called it"))
		}
		here = w.done(e, err)
	}()
	for _, n := range ahead {
		if w.Err() != nil {
			break
		}
		w.guard(func() { tell(w.agent, n) })
	}
	if e != nil && w.isRunning(e) {
		w.guard(func() { e.reply, err = e.resp.Reply(e.ctx, e.call.request(), e.reply[:0]) })
	}
	returned = true
	return
}

func (w *Worker) isRunning(e *queuedCall) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.at >= 0
}

// done is called when the Agent's methods have returned.
func (w *Worker) done(e *queuedCall, err error) (here bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if e != nil {
		inTime := e.at >= 0
		here = inTime || e.coroutine == nil
		if inTime {
			e.answered = now
			w.finish(e, err, false)
		} else if !w.concurrent && w.err == nil {
			w.recover()
		}
		if !w.concurrent {
			w.slot.release()
		}
	}
	if w.inMethods--; w.inMethods == 0 && w.err != nil {
		go w.closeAgent()
	}
	w.wake()
	return here
}

// recover ends the state Late. The caller holds mu, which recover unlocks while it
// calls onState.
func (w *Worker) recover() {
	reported := w.reported
	w.mu.Unlock()
	<-reported
	w.changed(Ready)
	w.mu.Lock()
	if w.err == nil {
		w.owed = Pending{}
		w.state.Store(int32(Ready))
	}
}

// guard calls f. A panic of f ends w.
func (w *Worker) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.fail(fmt.Errorf("agent panicked: %v\n%s", v, debug.Stack()))
		}
	}()
	f()
}

// finish ends the wait for e. A Coroutine that is calling the Agent continues when the Agent has
// returned. If abandon is set, it continues at once on another goroutine, and the Agent keeps
// its own. The caller holds mu.
func (w *Worker) finish(e *queuedCall, err error, abandon bool) {
	last := len(w.running) - 1
	w.running[e.at] = w.running[last]
	w.running[e.at].at = e.at
	w.running[last] = nil
	w.running = w.running[:last]
	e.at, e.err = -1, err
	if abandon {
		e.cancel()
	}
	switch {
	case e.coroutine == nil && !w.concurrent:
		e.done <- struct{}{}
	case e.coroutine != nil && abandon:
		e.call.Waiter = nil // the Agent may keep e for ever
		go e.coroutine.resume()
	}
}

// closeAgent closes the Agent after the end of w.
func (w *Worker) closeAgent() {
	close(w.work)
	defer close(w.ended)
	if c, ok := w.agent.(io.Closer); ok {
		w.guard(func() { w.closeErr = c.Close() })
	}
}
