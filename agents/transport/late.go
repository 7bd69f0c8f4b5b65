package transport

import "time"

// How the wait for an Agent ends other than by its answer.

// expireAt sets timer. It is not stopped when the answer has come, and set again
// only for an earlier time: that would cost more than a short answer does. The
// caller holds mu.
func (w *Worker) expireAt(t time.Time) {
	w.fires = t
	w.timer.Reset(time.Until(t))
}

// expire abandons a call whose time is over.
func (w *Worker) expire() {
	w.mu.Lock()
	w.fires = time.Time{}
	e := w.current
	if e == nil || e.deadline.IsZero() {
		w.mu.Unlock()
		return
	}
	if time.Now().Before(e.deadline) { // the timer was for another
		w.expireAt(e.deadline)
		w.mu.Unlock()
		return
	}
	w.state.Store(int32(Late))
	w.abandoned.Add(1)
	told := make(chan struct{})
	w.told = told
	close(w.late)
	w.cancel()
	w.owed = e.pending()
	w.finish(ErrLate, true)
	w.mu.Unlock()
	w.changed(Late)
	close(told)
}

func (w *Worker) changed(s State) {
	w.mu.Lock()
	f := w.onState
	w.mu.Unlock()
	if f != nil {
		f(s)
	}
}

// finish ends the wait for current. A Turn that does it itself goes on when
// the Agent has returned, or at once if left is set: it leaves the Agent alone
// with its goroutine. The caller holds mu.
func (w *Worker) finish(err error, left bool) {
	e := w.current
	w.current = nil
	e.err = err
	switch {
	case e.turn == nil:
		e.done <- struct{}{}
	case left:
		go e.turn.resume()
	}
}

// fail ends w because of err, unless it has ended before.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.err = err
	w.timer.Stop()
	w.cancel()
	close(w.dead)
	if w.current != nil {
		w.owed = w.current.pending()
		w.finish(err, true)
	}
	w.wake()
}

// closeGrace is how long Close waits for the Agent.
const closeGrace = 100 * time.Millisecond

// Close implements Transport. A method that is running is told by its context
// and has a moment to return; the Agent is closed when it has, if ever.
func (w *Worker) Close() error {
	w.fail(ErrClosed)
	w.mu.Lock()
	told := w.told
	w.mu.Unlock()
	if told != nil {
		<-told
	}
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-w.ended:
		return w.closeErr
	case <-t.C:
		return nil
	}
}
