package transport

import "time"

// The ways in which the wait for an Agent ends, other than by its reply.

// expireAt sets timer. A reply does not stop the timer, and a later deadline does
// not reset it: that would cost more than a quick call. The caller holds mu.
func (w *Worker) expireAt(t time.Time) {
	w.fires = t
	w.timer.Reset(time.Until(t))
}

// expire abandons the calls whose deadlines have passed.
func (w *Worker) expire() {
	now := time.Now()
	w.mu.Lock()
	w.fires = time.Time{}
	var next time.Time
	var reported chan struct{}
	for i := len(w.running) - 1; i >= 0; i-- {
		switch e := w.running[i]; {
		case e.deadline.IsZero():
		case now.Before(e.deadline): // the timer was for another
			if next.IsZero() || e.deadline.Before(next) {
				next = e.deadline
			}
		default:
			w.abandoned.Add(1)
			if !w.concurrent {
				w.state.Store(int32(Late))
				reported = make(chan struct{})
				w.reported, w.owed = reported, e.pending()
				w.slot.fail(ErrLate)
			}
			w.finish(e, ErrLate, true)
		}
	}
	if !next.IsZero() {
		w.expireAt(next)
	}
	w.mu.Unlock()
	if reported != nil {
		w.changed(Late)
		close(reported)
	}
}

func (w *Worker) changed(s State) {
	w.mu.Lock()
	f := w.onState
	w.mu.Unlock()
	if f != nil {
		f(s)
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
	close(w.dead)
	w.slot.fail(err)
	for len(w.running) > 0 {
		e := w.running[0]
		if !w.concurrent {
			w.owed = e.pending()
		}
		w.finish(e, err, true)
	}
	if w.inMethods == 0 {
		go w.closeAgent()
	}
}

// closeGrace is how long Close waits for the Agent's methods to return.
const closeGrace = 100 * time.Millisecond

// Close implements Transport. It cancels the context of a method that is running
// and waits up to closeGrace for it, and for the Agent's Close. The Agent is closed when the
// method has returned, if ever. Close returns the error of that if it has waited long enough.
func (w *Worker) Close() error {
	w.fail(ErrClosed)
	w.mu.Lock()
	reported := w.reported
	w.mu.Unlock()
	if reported != nil {
		<-reported
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
