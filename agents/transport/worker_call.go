package transport

import (
	"context"
	"errors"
	"io"
	"time"
)

// How a Worker calls its Agent. One goroutine does so at a time: the one that has
// set busy.

// run is the Worker's goroutine. It delivers Notices and makes the calls that no
// Turn makes.
func (w *Worker) run() {
	defer close(w.ended)
	if c, ok := w.resp.Agent.(io.Closer); ok {
		defer w.guard(func() { w.closeErr = c.Close() })
	}
	for {
		e, notices, over := w.take()
		switch {
		case over:
			return
		case e == nil && len(notices) == 0:
			<-w.wakeup
		default:
			w.do(e, notices)
		}
	}
}

// take returns the next call and the Notices to deliver before it, and sets busy if
// there are any. over reports whether the Worker has ended. The order is that of
// Notify and Send.
func (w *Worker) take() (e *queuedCall, ahead []Notice, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy && w.err != nil {
		return nil, nil, true
	}
	e, ahead = w.next, w.ahead
	if w.busy || e != nil && e == w.current && e.call.Turn != nil { // its Turn will make the call
		w.wakeAgain = true
		return nil, nil, false
	}
	w.next, w.ahead = nil, nil
	if e == nil {
		ahead = w.notices.Take()
	}
	w.busy = e != nil || len(ahead) > 0
	return e, ahead, false
}

// serve implements turnCall.
func (e *queuedCall) serve() bool {
	w := e.worker
	w.mu.Lock()
	if w.busy || w.next != e || w.current != e { // run has Notices to deliver first, or the call is over
		e.call.Turn = nil
		w.wake()
		w.mu.Unlock()
		e.call.BeforeWait(true)
		<-e.done
		return true
	}
	ahead := w.ahead
	w.next, w.ahead = nil, nil
	w.busy = true
	e.turn = e.call.Turn
	w.mu.Unlock()
	return w.do(e, ahead)
}

// do delivers the Notices in ahead and then makes the call e, unless e is nil or was
// abandoned. It reports whether the call has returned in time. The caller has set
// busy.
func (w *Worker) do(e *queuedCall, ahead []Notice) (inTime bool) {
	var err error
	returned := false
	defer func() {
		if !returned {
			w.fail(errors.New("agent has ended the goroutine that called it"))
		}
		inTime = w.done(e, err)
	}()
	for _, n := range ahead {
		if w.Err() != nil {
			break
		}
		w.guard(func() { tell(w.resp.Agent, n) })
	}
	w.mu.Lock()
	ctx, wanted := w.ctx, e != nil && w.current == e
	w.mu.Unlock()
	if wanted {
		w.guard(func() { e.reply, err = w.resp.Reply(ctx, e.call.request(), e.reply[:0]) })
	}
	returned = true
	return
}

// done is called when the Agent's methods have returned. It reports whether the call
// e has returned in time; false if e is nil.
func (w *Worker) done(e *queuedCall, err error) (inTime bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if e != nil {
		if inTime = w.current == e; inTime {
			e.answered = now
			w.finish(err, false)
		} else if w.err == nil {
			w.recover()
		}
		w.slot.release()
	}
	w.busy = false
	if w.wakeAgain {
		w.wakeAgain = false
		w.wake()
	}
	return inTime
}

// recover ends the state Late. The caller holds mu, which recover unlocks while it
// calls onState.
func (w *Worker) recover() {
	told := w.told
	w.mu.Unlock()
	<-told
	w.changed(Ready)
	w.mu.Lock()
	if w.err == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
		w.owed = Pending{}
		w.state.Store(int32(Ready))
	}
}

// guard calls f. A panic of f ends w.
func (w *Worker) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.fail(panicError(v))
		}
	}()
	f()
}
