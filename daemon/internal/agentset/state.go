package agentset

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// A state is a stage in the life of an agent.
type state int

const (
	stateInitial    state = iota // not started yet; requests for it wait
	stateStarting                // in its first start; requests for it wait
	stateReady                   // connected, takes requests
	stateLate                    // connected, has not replied in time, and the reply is still to come
	stateNotReady                // connected, has said that it is not ready
	stateEnding                  // disconnected; its process is being ended
	stateDown                    // has ended or was not started; may have a time for its next start
	stateRestarting              // in a start that is not the first; requests for it fail
	stateStopped                 // stopped for good
)

func (s state) String() string {
	return [...]string{"initial", "starting", "ready", "late", "not ready", "ending", "down", "restarting", "stopped"}[s]
}

func (s state) connected() bool { return s == stateReady || s == stateLate || s == stateNotReady }

// Values of pmcd.agent.status (pmcd(1), and the metric's help text). For an agent that is
// not connected they are bits. Bits 8 to 15 are the exit code that has ended it, and bits
// 16 to 23 the signal. Bit 1 is never set. In C pmcd it means that an agent was found dead
// without a request. Here each end is noticed at once, and has statusProtocol.
const (
	statusStarting   = 1 // not ready, or in its first start
	statusNotStarted = 1 << 2
	statusProtocol   = 1 << 3
)

// The time from a failure of an agent to its next start.
const (
	minBackoff  = time.Second // after the first failure; doubled by each further one ...
	maxBackoff  = time.Minute // ... up to this
	stableAfter = time.Minute // connected for so long, the next failure is a first one
)

// A lifecycle is the state of an agent and the history of its starts. There is one method
// for each event. It ignores an event that does not apply in the current state.
// pmcd.agent.status and Status are functions of the lifecycle, and so are the STATUS= of
// the service and the exit code of pmcdctl, which depend on Status.
//
//	initial
//	   | starting
//	   v          startFailed
//	starting ------------------> down <----------------.
//	   |                         |  ^                  |
//	   |                starting |  | startFailed      |
//	   |                         v  |                  |
//	   |                      restarting               |
//	   | connected               | connected           | ended
//	   v                         v                     |
//	ready, late, notReady: transportState              |
//	   | disconnected                                  |
//	   v                                               |
//	ending --------------------------------------------'
//
// The event connected leads to one of the three connected states, and
// transportState from each of them to another. The event stopped leads from each
// state without a connection to the state stopped, which is final.
//
// Supervision raises all events but two: the transport raises transportState, and
// a request that finds the connection broken may raise disconnected.
type lifecycle struct {
	// conn is the connection; nil if the agent is not connected. It is changed with
	// mu held only, and atomic because each request reads it.
	conn atomic.Pointer[Conn]

	// fenced means that requests of clients are refused (pmcd.agent.fenced). It is not a
	// state, because a client may set it in any state. The end of the connection clears
	// it. It is atomic because each request reads it.
	fenced atomic.Bool

	// mu guards the following, and changes of conn: several goroutines raise events,
	// and a reader must see a state and its times that belong together.
	mu       sync.Mutex
	state    state
	since    time.Time       // when the agent entered state
	reported transport.State // what the transport has reported during a start; unreported if nothing
	status   int32           // pmcd.agent.status without a connection: all that happened since there was one
	restarts restartHistory
}

// unreported is not a state of a transport.
const unreported transport.State = -1

// enter makes s the state. The caller holds mu.
func (l *lifecycle) enter(s state) { l.state, l.since = s, time.Now() }

// starting is the event that a start of the agent begins.
func (l *lifecycle) starting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case stateInitial:
		l.enter(stateStarting)
	case stateDown:
		l.enter(stateRestarting)
	default:
		return
	}
	l.reported, l.restarts.next = unreported, time.Time{}
}

// connected is the event that a start has succeeded. Requests can use c from then
// on. It reports false if the agent was stopped meanwhile.
func (l *lifecycle) connected(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateStarting && l.state != stateRestarting {
		return false
	}
	// A report of the transport is newer than its State, because it reports that it is
	// ready before its State is Ready. If it has not reported yet, it will report the
	// same State.
	s := l.reported
	if s == unreported {
		s = c.State()
	}
	l.enter(connectedState(s))
	l.restarts.starts++
	l.conn.Store(c)
	return true
}

// connectedState is the state of an agent whose transport is in state s.
func connectedState(s transport.State) state {
	return [...]state{transport.Ready: stateReady, transport.Late: stateLate, transport.NotReady: stateNotReady}[s]
}

// startFailed is the event that a start has failed. If again is true, there will be
// another one after delay.
func (l *lifecycle) startFailed(reason string, stderrTail []string, again bool) (failures int, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateStarting && l.state != stateRestarting {
		return l.restarts.failures, 0
	}
	l.status |= statusNotStarted
	l.enter(stateDown)
	return l.restarts.failed(reason, stderrTail, again)
}

// transportState is the event that the transport is in state s, or about to be
// ready. It returns the state that the transport was in.
func (l *lifecycle) transportState(s transport.State) (was transport.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case stateStarting, stateRestarting:
		if was = l.reported; was == unreported {
			was = transport.Ready
		}
		l.reported = s
		return was
	case stateReady:
		was = transport.Ready
	case stateLate:
		was = transport.Late
	case stateNotReady:
		was = transport.NotReady
	default:
		return s
	}
	if s != was {
		l.enter(connectedState(s))
	}
	return was
}

// disconnected is the event that the connection c is closed. Requests fail from
// then on. Status is what pmcd.agent.status says about it.
func (l *lifecycle) disconnected(c *Conn, status int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn.Load() != c {
		return
	}
	l.status = status
	l.enter(stateEnding)
	l.fenced.Store(false)
	l.conn.Store(nil)
}

// ended is the event that the process of an agent that was disconnected has ended. If
// again is true, the agent will be started again after delay.
func (l *lifecycle) ended(reason string, stderrTail []string, again bool) (failures int, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateEnding {
		return l.restarts.failures, 0
	}
	l.state = stateDown // for clients nothing has changed since it was disconnected
	return l.restarts.failed(reason, stderrTail, again)
}

// stopped is the event that the agent, which is not connected, will not be started
// any more.
func (l *lifecycle) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case stateInitial, stateStarting, stateRestarting:
		l.status |= statusNotStarted
		l.enter(stateStopped)
	case stateEnding, stateDown:
		l.state = stateStopped // for clients nothing has changed
	default:
		return
	}
	l.restarts.next = time.Time{}
}

// lateSince returns when the agent became late; zero if it is not.
func (l *lifecycle) lateSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateLate {
		return time.Time{}
	}
	return l.since
}

// statusCode returns pmcd.agent.status.
func (l *lifecycle) statusCode() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == stateInitial, l.state == stateStarting:
		return statusStarting
	case !l.state.connected():
		return l.status
	// A reply to a client may say so before the event.
	case l.conn.Load().State() == transport.NotReady:
		return statusStarting
	}
	return 0
}

// report sets the fields of st about the state and the starts.
func (l *lifecycle) report(st *Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case stateInitial, stateStarting, stateRestarting:
		st.State = Starting
	case stateReady:
		st.State = Ready
	case stateLate:
		st.State = Late
	case stateNotReady:
		st.State = NotReady
	default:
		st.State = Down
	}
	if c := l.conn.Load(); c != nil {
		if c.Process != nil {
			st.PID = c.Process.PID()
		}
		if l.fenced.Load() {
			st.State = Fenced
		}
	}
	h := &l.restarts
	st.Since, st.NextStart = l.since, h.next
	st.Restarts, st.Failures = max(h.starts-1, 0), h.failures
	st.LastError, st.ErrorAt, st.StderrTail = h.lastError, h.errorAt, slices.Clone(h.stderrTail)
}
