package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Local returns a Transport to an Agent in this process.
//
// The Agent's methods run on a goroutine that can be left alone with them,
// because that is the only way to stop waiting for one: Go cannot interrupt it.
// It is the Worker's own, or that of a [Turn], which costs less. A call that
// has not returned in time is abandoned, and the Agent is late until it does.
//
// A panic of a method ends the Agent. One of a goroutine that the Agent has
// started ends the process, as do the runtime's own fatal errors.
func Local(a agents.Agent) *Worker {
	w := &Worker{
		slot:   make(chan struct{}, 1),
		wakeup: make(chan struct{}, 1),
		dead:   make(chan struct{}),
		ended:  make(chan struct{}),
		late:   make(chan struct{}),
	}
	w.resp.Agent = a
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	go w.run()
	return w
}

// A Worker is a Transport to an Agent in this process.
//
// One goroutine, started by Local, tells the Agent what has no reply and does
// the calls that no Turn does. It ends after Close or a panic of the Agent's,
// but not before the Agent's method has returned: if that never happens nobody
// waits for it.
//
// A reply belongs to its Call, so that the next call can start although
// nobody has come for the reply yet.
type Worker struct {
	resp   Responder     // belongs to who has set busy
	slot   chan struct{} // full from Send until the Agent's method has returned
	wakeup chan struct{} // full when there is something new for run
	dead   chan struct{} // closed when err is set
	ended  chan struct{} // closed when run has returned, and closeErr is set

	notices   Notices
	state     atomic.Int32 // a State; changed with mu held
	abandoned atomic.Int64
	closeErr  error // of the Agent

	mu        sync.Mutex    // guards the following
	busy      bool          // a goroutine is calling the Agent, or about to
	wakeAgain bool          // run has found it so
	free      []*queuedCall // for the next Calls
	next      *queuedCall   // not begun yet
	ahead     []Notice      // to be told before next
	current   *queuedCall   // whose reply is waited for
	timer     *time.Timer
	fires     time.Time       // when timer does; zero if it does not
	ctx       context.Context // ends when a call is abandoned, and by the end of the Worker
	cancel    context.CancelFunc
	late      chan struct{} // closed while the Agent is late; then there is a new one
	told      chan struct{} // closed when onState has been told of the last Late
	owed      Pending       // while the Agent is late, and after its end
	onState   func(State)
	err       error
}

var (
	_ Transport      = (*Worker)(nil)
	_ AbandonCounter = (*Worker)(nil)
)

// A queuedCall is a Call on its way, and its Reply. It is used again, unless it
// was abandoned: the Agent may use its memory for ever then.
type queuedCall struct {
	worker   *Worker
	from     *Call // that was sent
	call     Call  // with memory of its own for the request; its Turn, if there is one, is to do it
	began    time.Time
	answered time.Time
	deadline time.Time
	reply    []byte // of who calls the Agent, until the queuedCall is done
	err      error
	turn     *Turn         // that waits for it, while it is the one that does it; guarded by mu
	done     chan struct{} // has room for one; of errands that the Worker does
}

// OnState has f called when the state has changed or, before requests are let
// through again, is about to be Ready: one call at a time, by a goroutine that
// holds no lock. It must be called before the Worker is used.
func (w *Worker) OnState(f func(State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onState = f
}

// State implements Transport: Ready or Late.
func (w *Worker) State() State { return State(w.state.Load()) }

// Abandoned implements AbandonCounter: how many calls have not returned in time.
func (w *Worker) Abandoned() int64 { return w.abandoned.Load() }

// WantsAttrs implements Transport.
func (w *Worker) WantsAttrs() bool {
	_, ok := w.resp.Agent.(agents.AttrSetter)
	return ok
}

// Done implements Transport.
func (w *Worker) Done() <-chan struct{} { return w.dead }

// Err implements Transport.
func (w *Worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Send implements Transport.
func (w *Worker) Send(c *Call) (Reply, error) {
	if err := w.acquire(c.Timeout); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	e := w.newCall(c)
	w.ahead = w.notices.Take()
	w.next, w.current = e, e
	e.began, e.deadline = time.Now(), time.Time{}
	if c.Timeout > 0 {
		e.deadline = e.began.Add(c.Timeout)
		if w.fires.IsZero() || e.deadline.Before(w.fires) {
			w.expireAt(e.deadline)
		}
	}
	if e.call.Turn == nil {
		w.wake()
	}
	return e, nil
}

const (
	// maxFree is how many queuedCalls are kept for the next Calls.
	maxFree = 8
	// maxFreeReply is the size, in bytes, above which a buffer is not kept.
	maxFreeReply = 1 << 20
)

// newCall returns a queuedCall for c. The caller holds mu.
func (w *Worker) newCall(c *Call) *queuedCall {
	var e *queuedCall
	if last := len(w.free) - 1; last >= 0 {
		e = w.free[last]
		w.free = w.free[:last]
	} else {
		e = &queuedCall{worker: w, done: make(chan struct{}, 1)}
	}
	e.from = c
	e.call = Call{Origin: c.Origin, Profile: c.Profile, Req: append(e.call.Req[:0], c.Req...)}
	if !c.Batched {
		e.call.Turn = c.Turn
	}
	return e
}

// keep keeps e, which is over, for the next Call.
func (w *Worker) keep(e *queuedCall) {
	e.from, e.call.Profile, e.call.Turn, e.turn = nil, nil, nil, nil
	if cap(e.reply) > maxFreeReply {
		e.reply = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.free) < maxFree {
		w.free = append(w.free, e)
	}
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

// wake has run look for work.
func (w *Worker) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// Recv implements Reply.
func (e *queuedCall) Recv(dst []byte) ([]byte, error) {
	c := e.from
	if c.Turn == nil || c.Batched {
		<-e.done
	} else {
		c.Turn.yield(e)
	}
	if e.err != nil {
		return dst, e.err
	}
	c.Began, c.Done = e.began, e.answered
	dst = append(dst, e.reply...)
	e.worker.keep(e)
	return dst, nil
}

// Pending implements Transport.
func (w *Worker) Pending() (Pending, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		return w.current.pending(), true
	}
	return w.owed, w.owed.Type != 0
}

func (e *queuedCall) pending() Pending {
	_, t, _ := pdu.Header(e.call.Req)
	return Pending{Type: t, Client: e.call.Origin.Client, Since: e.began}
}

// Notify implements Transport.
func (w *Worker) Notify(n Notice) {
	if _, ok := w.resp.Agent.(agents.ContextEnder); !ok {
		n.End = false
	}
	if !w.WantsAttrs() {
		n.Attrs = nil
	}
	if n.End || len(n.Attrs) > 0 {
		w.notices.Add(n)
		w.wake()
	}
}
