package transport

import (
	"context"
	"errors"
	"io"
	"time"
)

// How a Worker calls its Agent: one goroutine at a time, the one that has set
// busy.

// run tells the Agent what there is to tell, and does the errands that are not
// done by a Turn.
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

// take returns what run has to do next, and sets busy if there is anything.
// What the Agent is to be told is in the order of Notify and Send.
func (w *Worker) take() (e *queuedCall, ahead []Notice, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy && w.err != nil {
		return nil, nil, true
	}
	e, ahead = w.next, w.ahead
	if w.busy || e != nil && e == w.current && e.call.Turn != nil { // that comes for it
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

// serve does an queuedCall of a Turn's, on the goroutine that runs it. It reports
// whether the Turn goes on there.
func (w *Worker) serve(e *queuedCall) bool {
	w.mu.Lock()
	if w.busy || w.next != e || w.current != e { // run has something to tell first, or it is over
		e.call.Turn = nil
		w.wake()
		w.mu.Unlock()
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

// do tells the Agent of clients and lets it do an queuedCall, if there is one that
// was not abandoned before. It reports whether it was done in time. The caller
// has set busy.
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
		w.guard(func() { e.reply, err = w.resp.Reply(ctx, &e.call, e.reply[:0]) })
	}
	returned = true
	return
}

// done is called when the Agent has returned. Without an queuedCall, or with one
// that was abandoned, it reports false.
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
		<-w.slot
	}
	w.busy = false
	if w.wakeAgain {
		w.wakeAgain = false
		w.wake()
	}
	return inTime
}

// recover ends the state Late. The caller holds mu, which is let go meanwhile.
func (w *Worker) recover() {
	told := w.told
	w.mu.Unlock()
	<-told
	w.changed(Ready)
	w.mu.Lock()
	if w.err == nil {
		w.late = make(chan struct{})
		w.ctx, w.cancel = context.WithCancel(context.Background())
		w.owed = Pending{}
		w.state.Store(int32(Ready))
	}
}

// guard calls f and turns a panic into the end of w.
func (w *Worker) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.fail(panicError(v))
		}
	}()
	f()
}
