package agents

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Local returns a Conduit to an Agent in this process.
//
// The Agent's methods run on a goroutine of the Worker, because that is the
// only way to stop waiting for one: Go cannot interrupt it. A call that has
// not returned in time is abandoned, and the Agent is late until it does.
//
// A panic of a method ends the Agent. One of a goroutine that the Agent has
// started ends the process, as do the runtime's own fatal errors.
func Local(a Agent) *Worker {
	w := &Worker{
		slot:  make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		dead:  make(chan struct{}),
		ended: make(chan struct{}),
		late:  make(chan struct{}),
	}
	w.resp.Agent = a
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	go w.run()
	return w
}

// A Worker is a Conduit to an Agent in this process.
//
// One goroutine, started by Local, calls the Agent. It ends after Close or a
// panic of the Agent's, but not before the Agent's method has returned: if
// that never happens nobody waits for it.
//
// A reply belongs to its Call, so that the next call can start although
// nobody has come for the reply yet.
type Worker struct {
	resp  Responder     // run's
	slot  chan struct{} // full from Send until the Agent's method has returned
	wake  chan struct{} // full when there is something new for run
	dead  chan struct{} // closed when err is set
	ended chan struct{} // closed when run has returned, and closeErr is set

	notices   Notices
	state     atomic.Int32 // a State; changed with mu held
	abandoned atomic.Int64
	closeErr  error // of the Agent

	mu      sync.Mutex // guards the following
	next    *errand    // for run; nil once it has it
	ahead   []Notice   // to be told before next
	flying  *errand    // whose reply is waited for
	timer   *time.Timer
	ctx     context.Context // ends when a call is abandoned, and by the end of the Worker
	cancel  context.CancelFunc
	late    chan struct{} // closed while the Agent is late; then there is a new one
	told    chan struct{} // closed when onState has been told of the last Late
	owed    Pending       // while the Agent is late, and after its end
	onState func(State)
	err     error
}

var _ Conduit = (*Worker)(nil)

// An errand is a Call on its way. It is kept in Call.Wait, for the next time,
// unless it was abandoned: run may use its memory for ever then.
type errand struct {
	call     Call // with memory of its own for the request
	began    time.Time
	answered time.Time
	deadline time.Time
	reply    []byte // run's until done
	err      error
	done     chan struct{} // has room for one
}

// OnState has f called when the state has changed or, before requests are let
// through again, is about to be Ready: one call at a time, by a goroutine that
// holds no lock. It must be called before the Worker is used.
func (w *Worker) OnState(f func(State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onState = f
}

// State reports Ready or Late.
func (w *Worker) State() State { return State(w.state.Load()) }

// Abandoned reports how many calls have not returned in time.
func (w *Worker) Abandoned() int64 { return w.abandoned.Load() }

// WantsAttrs implements Conduit.
func (w *Worker) WantsAttrs() bool {
	_, ok := w.resp.Agent.(AttrSetter)
	return ok
}

// Done implements Conduit.
func (w *Worker) Done() <-chan struct{} { return w.dead }

// Err implements Conduit.
func (w *Worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Send implements Conduit.
func (w *Worker) Send(c *Call) error {
	if err := w.acquire(c.Timeout); err != nil {
		return err
	}
	e, _ := c.Wait.(*errand)
	if e == nil {
		e = &errand{done: make(chan struct{}, 1)}
		c.Wait = e
	}
	e.call = Call{Origin: c.Origin, Profile: c.Profile, Req: append(e.call.Req[:0], c.Req...)}
	e.err = nil
	if cap(e.reply) > 1<<20 {
		e.reply = nil
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.ahead = w.notices.Take()
	w.next, w.flying = e, e
	e.began, e.deadline = time.Now(), time.Time{}
	if c.Timeout > 0 {
		e.deadline = e.began.Add(c.Timeout)
		w.timer.Reset(c.Timeout)
	}
	w.rouse()
	return nil
}

// acquire fills slot, and waits no longer than timeout for it.
func (w *Worker) acquire(timeout time.Duration) error {
	w.mu.Lock()
	late, err := w.late, w.refusal()
	w.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case w.slot <- struct{}{}:
		return nil
	default:
	}
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case w.slot <- struct{}{}:
		return nil
	case <-w.dead:
		return w.Err()
	case <-late:
	case <-expired: // the Agent is busy with others, not late
	}
	return ErrLate
}

// refusal says why no request can be sent now. The caller holds mu.
func (w *Worker) refusal() error {
	if w.err == nil && w.State() == Late {
		return ErrLate
	}
	return w.err
}

// rouse has run look for work.
func (w *Worker) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Recv implements Conduit.
func (w *Worker) Recv(c *Call, dst []byte) ([]byte, error) {
	e := c.Wait.(*errand)
	<-e.done
	if e.err != nil {
		c.Wait = nil
		return dst, e.err
	}
	c.Began, c.Done = e.began, e.answered
	return append(dst, e.reply...), nil
}

// Pending reports what the Agent owes an answer to, as [Pending] has it.
func (w *Worker) Pending() (Pending, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying != nil {
		return w.flying.pending(), true
	}
	return w.owed, w.owed.Type != 0
}

func (e *errand) pending() Pending {
	_, t, _ := pdu.Header(e.call.Req)
	return Pending{Type: t, Client: e.call.Origin.Client, Since: e.began}
}

// Notify implements Conduit.
func (w *Worker) Notify(n Notice) {
	if _, ok := w.resp.Agent.(ContextEnder); !ok {
		n.End = false
	}
	if !w.WantsAttrs() {
		n.Attrs = nil
	}
	if n.End || len(n.Attrs) > 0 {
		w.notices.Add(n)
		w.rouse()
	}
}

// run calls the Agent.
func (w *Worker) run() {
	defer close(w.ended)
	defer w.fail(errors.New("agent has ended the goroutine that called it"))
	if c, ok := w.resp.Agent.(io.Closer); ok {
		defer w.guard(func() { w.closeErr = c.Close() })
	}
	for {
		e, notices, err := w.take()
		switch {
		case err != nil:
			return
		case e == nil && len(notices) == 0:
			select {
			case <-w.wake:
			case <-w.dead:
			}
			continue
		}
		for _, n := range notices {
			if w.Err() != nil {
				return
			}
			w.guard(func() { w.tell(n) })
		}
		if e != nil {
			w.answer(e)
		}
	}
}

// take returns what run has to do next. What the Agent is to be told is in the
// order of Notify and Send.
func (w *Worker) take() (*errand, []Notice, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ahead := w.next, w.ahead
	w.next, w.ahead = nil, nil
	if e == nil {
		ahead = w.notices.Take()
	}
	return e, ahead, w.err
}

func (w *Worker) tell(n Notice) {
	if a, ok := w.resp.Agent.(ContextEnder); ok && n.End {
		a.EndContext(n.Client)
	}
	if a, ok := w.resp.Agent.(AttrSetter); ok {
		for _, attr := range n.Attrs {
			a.SetAttr(n.Client, attr)
		}
	}
}

// answer lets the Agent answer e, unless that was abandoned before.
func (w *Worker) answer(e *errand) {
	w.mu.Lock()
	ctx, wanted := w.ctx, w.flying == e
	w.mu.Unlock()
	var err error
	if wanted {
		w.guard(func() { e.reply, err = w.resp.Reply(ctx, &e.call, e.reply[:0]) })
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying == e {
		w.timer.Stop()
		e.answered = now
		w.finish(err)
		<-w.slot
		return
	}
	if w.err != nil {
		return
	}
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
		<-w.slot
	}
}

// expire abandons a call whose time is over.
func (w *Worker) expire() {
	w.mu.Lock()
	e := w.flying
	if e == nil || e.deadline.IsZero() || time.Now().Before(e.deadline) { // the timer was for another
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
	w.finish(ErrLate)
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

// finish ends the wait for flying. The caller holds mu.
func (w *Worker) finish(err error) {
	e := w.flying
	w.flying = nil
	e.err = err
	e.done <- struct{}{}
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
	if w.flying != nil {
		w.owed = w.flying.pending()
		w.finish(err)
	}
}

// closeGrace is how long Close waits for the Agent.
const closeGrace = 100 * time.Millisecond

// Close implements Conduit. A method that is running is told by its context
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
