package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/responder"
	"github.com/gopcp/pmcd/pdu"
)

// Local returns a Transport to an Agent in this process, which one goroutine at a time
// calls. A call that has not returned in time is abandoned, and the Agent is late until
// it returns.
func Local(a agents.Agent) *Worker { return newWorker(a, false) }

// Inline is Local for an Agent that several goroutines may call at a time. No call waits
// for another one: those of a [Coroutine], and those without one, are made on the goroutine that
// calls Recv. If a call is abandoned, other calls go on: the State is always Ready. A call
// without a Coroutine is waited for, but its context ends after its timeout.
func Inline(a agents.Agent) *Worker { return newWorker(a, true) }

func newWorker(a agents.Agent, concurrent bool) *Worker {
	w := &Worker{
		agent: a, concurrent: concurrent,
		work: make(chan work, 1), dead: make(chan struct{}), ended: make(chan struct{}),
	}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	if !concurrent {
		go w.run()
	}
	return w
}

// A Worker is a Transport to an Agent in this process. See [Local] and [Inline].
//
// The Agent's methods run on a goroutine that can be abandoned, because Go cannot
// interrupt a method that does not return: that of a [Coroutine], or the Worker's own, which
// costs more. The latter ends after Close or a panic of the Agent, but not before the method
// has returned. If that never happens the goroutine stays; nothing waits for it.
//
// A panic of a method ends the Worker. A panic of a goroutine that the Agent has
// started ends the process, as do fatal errors of the Go runtime.
//
// Each reply has a buffer of its own, so that the next call can start before the
// reply is received.
type Worker struct {
	agent      agents.Agent
	concurrent bool
	maxReply   int
	work       chan work     // for the goroutine of the Worker
	dead       chan struct{} // closed when err is set
	ended      chan struct{} // closed when the Agent is closed, and closeErr is set
	closeErr   error         // of the Agent

	notices   Notices
	state     atomic.Int32 // a State; changed with mu held
	abandoned atomic.Int64

	mu        sync.Mutex    // guards the following; not held during a call; locked before that of notices
	slot      slot          // is not used if concurrent
	next      *queuedCall   // has not begun; nil if concurrent
	running   []*queuedCall // have no reply yet; one at most, unless concurrent
	inMethods int           // goroutines that are calling the Agent, or about to
	free      []*queuedCall // for the next Calls
	timer     *time.Timer
	fires     time.Time     // when timer fires; zero if it is not set
	reported  chan struct{} // closed when onState has returned from the last Late
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
	worker    *Worker
	resp      responder.Responder
	ctx       context.Context // ends when the call is abandoned
	cancel    context.CancelFunc
	from      *Call    // the Call that was sent, until Recv
	call      Call     // a copy with its own memory for the request; its Coroutine, if not nil, makes the call
	ahead     []Notice // to be delivered before
	began     time.Time
	answered  time.Time
	deadline  time.Time // zero if there is none
	reply     []byte    // used by the goroutine that calls the Agent until the call is done
	err       error
	coroutine *Coroutine    // the one that is making the call; guarded by mu
	at        int           // index in running; -1 if the call is over or has not begun; guarded by mu
	done      chan struct{} // has room for one; receives when the call is over, if no Coroutine makes it
}

// Concurrent reports whether no Call waits for another one.
func (w *Worker) Concurrent() bool { return w.concurrent }

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
func (w *Worker) LimitReplies(max int) { w.maxReply = max }

// State implements Transport: Ready or Late.
func (w *Worker) State() State { return State(w.state.Load()) }

// Abandoned implements AbandonCounter: how many calls have not returned in time.
func (w *Worker) Abandoned() int64 { return w.abandoned.Load() }

// WantsAttrs implements Transport.
func (w *Worker) WantsAttrs() bool {
	_, ok := w.agent.(agents.AttrSetter)
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
	if w.concurrent {
		if w.err != nil {
			return nil, w.err
		}
		return w.newCall(c), nil
	}
	if err := w.acquire(c); err != nil {
		return nil, err
	}
	e := w.newCall(c)
	e.ahead = w.notices.Take()
	w.next = e
	w.start(e)
	w.wake()
	return e, nil
}

const (
	// maxFree is how many queuedCalls are kept for the next Calls.
	maxFree = 16
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
		e = &queuedCall{worker: w, at: -1, done: make(chan struct{}, 1)}
		e.resp.Agent, e.resp.Max = w.agent, w.maxReply
		e.ctx, e.cancel = context.WithCancel(context.Background())
	}
	e.from = c
	e.call = Call{Origin: c.Origin, Profile: c.Profile, Timeout: c.Timeout, Waiter: c.Waiter, Req: append(e.call.Req[:0], c.Req...)}
	if w.concurrent || !c.Batched {
		e.call.Coroutine = c.Coroutine
	}
	return e
}

// keep keeps e, which is over, for the next Call.
func (w *Worker) keep(e *queuedCall) {
	e.call.Profile, e.call.Coroutine, e.call.Waiter, e.coroutine, e.ahead = nil, nil, nil, nil, nil
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

// Recv implements Reply.
func (e *queuedCall) Recv(dst []byte) ([]byte, error) {
	c := e.from
	e.from = nil // an abandoned call must not keep it
	switch co := c.Coroutine; {
	case co != nil && (e.worker.concurrent || !c.Batched):
		co.yield(e)
	case e.worker.concurrent:
		e.serve()
	default:
		e.await(c)
	}
	if e.err != nil {
		return dst, e.err
	}
	c.Began, c.Done = e.began, e.answered
	dst = append(dst, e.reply...)
	e.worker.keep(e)
	return dst, nil
}

// await waits until e, which no Coroutine makes, is over.
func (e *queuedCall) await(c *Call) {
	select {
	case <-e.done:
	default:
		c.BeforeWait(true)
		<-e.done
	}
}

// Pending implements Transport.
func (w *Worker) Pending() (Pending, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.running) > 0 && !w.concurrent {
		return w.running[0].pending(), true
	}
	return w.owed, w.owed.Type != 0
}

func (e *queuedCall) pending() Pending {
	_, t, _ := pdu.Header(e.call.Req)
	return Pending{Type: t, Client: e.call.Origin.Client, Since: e.began}
}

// Notify implements Transport.
func (w *Worker) Notify(n Notice) {
	if _, ok := w.agent.(agents.ContextEnder); !ok {
		n.End = false
	}
	if !w.WantsAttrs() {
		n.Attrs = nil
	}
	if !n.End && len(n.Attrs) == 0 {
		return
	}
	w.mu.Lock()
	deliver := w.concurrent && w.err == nil
	if deliver {
		w.inMethods++
	} else if !w.concurrent {
		w.notices.Add(n)
		w.wake()
	}
	w.mu.Unlock()
	if deliver {
		w.do(nil, []Notice{n})
	}
}
