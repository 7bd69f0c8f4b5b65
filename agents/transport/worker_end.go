package transport

import "time"

// The ways in which the wait for an Agent ends, other than by its reply.

// expireAt sets timer. A reply does not stop the timer, and a later deadline does
// not reset it: that would cost more than a quick call. The caller holds mu.
func (w *Worker) expireAt(t time.Time) {
	w.fires = t
	w.timer.Reset(time.Until(t))
}

// expire abandons the current call if its deadline has passed.
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
	w.slot.fail(ErrLate)
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

// finish ends the wait for the current call. A Turn that is calling the Agent
// continues when the Agent has returned. If abandon is set, it continues at once on
// another goroutine, and the Agent keeps its own. The caller holds mu.
func (w *Worker) finish(err error, abandon bool) {
	e := w.current
	w.current = nil
	e.err = err
	switch {
	case e.turn == nil:
		e.done <- struct{}{}
	case abandon:
		e.call.Waiter = nil // the Agent may keep e for ever
		go e.turn.resume()
	}
}

// fail ends w for the reason err, unless it has ended.
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
	w.slot.fail(err)
	if w.current != nil {
		w.owed = w.current.pending()
		w.finish(err, true)
	}
	w.wake()
}

// closeGrace is how long Close waits for the Agent's methods to return.
const closeGrace = 100 * time.Millisecond

// Close implements Transport. It cancels the context of a method that is running
// and waits up to closeGrace for it. The Agent is closed when the method has
// returned, if ever.
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
