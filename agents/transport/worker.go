package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/internal/responder"
	"github.com/gopcp/pmcd/pdu"
)

// Local returns a Transport to an Agent in this process.
//
// The Agent's methods run on a goroutine that can be abandoned, because Go cannot
// interrupt a method that does not return. It is the Worker's own goroutine, or
// that of a [Turn], which costs less. A call that has not returned in time is
// abandoned, and the Agent is late until it returns.
//
// A panic of a method ends the Agent. A panic of a goroutine that the Agent has
// started ends the process, as do fatal errors of the Go runtime.
func Local(a agents.Agent) *Worker {
	w := &Worker{
		wakeup: make(chan struct{}, 1),
		dead:   make(chan struct{}),
		ended:  make(chan struct{}),
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
// Local starts one goroutine for it. It delivers Notices, and makes the calls that
// are not made by a Turn. It ends after Close or a panic of the Agent, but not
// before the Agent's method has returned. If the method never returns, the
// goroutine stays; nothing waits for it.
//
// Each reply has a buffer of its own, so that the next call can start before the
// reply is received.
type Worker struct {
	resp   responder.Responder // used by the goroutine that has set busy
	wakeup chan struct{}       // full when run has to look for work
	dead   chan struct{}       // closed when err is set
	ended  chan struct{}       // closed when run has returned, and closeErr is set

	notices   Notices
	state     atomic.Int32 // a State; changed with mu held
	abandoned atomic.Int64
	closeErr  error // of the Agent

	mu        sync.Mutex // guards the following
	slot      slot
	busy      bool          // a goroutine is calling the Agent, or about to
	wakeAgain bool          // run has found busy set, and must be woken when it is not
	free      []*queuedCall // for the next Calls
	next      *queuedCall   // has not begun
	ahead     []Notice      // to be delivered before next
	current   *queuedCall   // has no reply yet
	timer     *time.Timer
	fires     time.Time       // when timer fires; zero if it is not set
	ctx       context.Context // ends when a call is abandoned, or the Worker ends
	cancel    context.CancelFunc
	told      chan struct{} // closed when onState has returned from the last Late
	owed      Pending       // while the Agent is late, and after its end
	onState   func(State)
	err       error
}

var (
	_ Transport      = (*Worker)(nil)
	_ AbandonCounter = (*Worker)(nil)
)

// A queuedCall is a Call on its way, and its Reply. It is reused for later Calls,
// but not if it was abandoned: then the Agent may use its memory for ever.
type queuedCall struct {
	worker   *Worker
	from     *Call // the Call that was sent, until Recv
	call     Call  // a copy with its own memory for the request; its Turn, if not nil, makes the call
	began    time.Time
	answered time.Time
	deadline time.Time
	reply    []byte // used by the goroutine that calls the Agent until the call is done
	err      error
	turn     *Turn         // the Turn that is making the call; guarded by mu
	done     chan struct{} // has room for one; receives when the Worker's goroutine has made the call
}

// OnState sets the function that is called when the state has changed. For Ready it
// is called before requests are accepted again. There is one call at a time, by a
// goroutine that holds no lock. OnState must be called before the Worker is used.
func (w *Worker) OnState(f func(State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onState = f
}

// LimitReplies sets how long a reply may be, in bytes; 0 is DefaultMaxReply. It must
// be called before the Worker is used.
func (w *Worker) LimitReplies(max int) { w.resp.Max = max }

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
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.acquire(c); err != nil {
		return nil, err
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
	// maxFreeBuffer is the size, in bytes, above which a buffer is not kept, except
	// that of one reply.
	maxFreeBuffer = 64 << 10
	// maxFreeReply is the size, in bytes, above which that one is not kept either.
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
	e.call = Call{Origin: c.Origin, Profile: c.Profile, Waiter: c.Waiter, Req: append(e.call.Req[:0], c.Req...)}
	if !c.Batched {
		e.call.Turn = c.Turn
	}
	return e
}

// keep keeps e, which is over, for the next Call.
func (w *Worker) keep(e *queuedCall) {
	e.call.Profile, e.call.Turn, e.call.Waiter, e.turn = nil, nil, nil, nil
	if cap(e.call.Req) > maxFreeBuffer {
		e.call.Req = nil
	}
	if cap(e.reply) > maxFreeReply {
		e.reply = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.free) == maxFree {
		return
	}
	if cap(e.reply) > maxFreeBuffer { // the next Call gets this one
		for _, old := range w.free {
			if cap(old.reply) > maxFreeBuffer {
				old.reply = nil
			}
		}
	}
	w.free = append(w.free, e)
}

// refusal returns the error that a Send gets now, if any. The caller holds mu.
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
	e.from = nil // an abandoned call must not keep it
	if c.Turn == nil || c.Batched {
		c.BeforeWait(true)
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
