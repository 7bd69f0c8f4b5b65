package daemon

import (
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An AgentState is what an agent is able to do.
type AgentState string

// States of an agent.
const (
	AgentStarting AgentState = "starting"  // is started, or connected to
	AgentReady    AgentState = "ready"     // answers
	AgentLate     AgentState = "late"      // has not answered in time, and still owes that answer
	AgentNotReady AgentState = "not ready" // has said so itself
	AgentDown     AgentState = "down"      // has ended, or could not be started
	AgentFenced   AgentState = "fenced"    // is connected, and clients are kept away (pmcd.agent.fenced)
)

// An AgentStatus is one line of pmcd.conf and how its agent does. Counts begin
// with the daemon, or with the reload that has changed the line.
type AgentStatus struct {
	Name   string
	Domain int
	Kind   string // "dso", "pipe" or "socket", as in pmcd.conf
	State  AgentState
	Since  time.Time // when it got into State
	PID    int       // of the process that pmcd started for it; 0 if there is none

	Restarts  int       // starts that succeeded, but for the first
	Failures  int       // ends and failed starts since it last was up for a minute
	NextStart time.Time // of an agent that is down; zero if nobody starts it by itself
	LastError string    // why it ended, or could not be started, the last time; "" if it never did
	ErrorAt   time.Time // when that was; zero if never
	LastWords []string  // last lines of its error output before that, or the stack of its panic

	Requests  uint64        // answers
	Errors    uint64        // requests that it did not answer, or with nonsense
	Abandoned uint64        // those of Errors whose answer was waited for in vain
	Mean      time.Duration // from request to answer, mean of about the last 16 that were waited for
	Max       time.Duration // the longest of the last minute, or of up to two
}

// Agents reports on all agents, in the order of pmcd.conf.
func (d *Daemon) Agents() []AgentStatus {
	list := d.routes.Load().list
	all := make([]AgentStatus, len(list))
	for i, a := range list {
		all[i] = a.report()
	}
	return all
}

func (a *agent) report() AgentStatus {
	spec := a.spec.Load()
	st := AgentStatus{Name: spec.Name, Domain: a.domain, Kind: "dso"}
	switch spec.Kind {
	case pmcdconf.Pipe:
		st.Kind = "pipe"
	case pmcdconf.Socket:
		st.Kind = "socket"
	}
	l := a.link.Load()
	if l != nil && l.Process != nil {
		st.PID = l.Process.PID()
	}
	a.history.report(&st, l != nil)
	if l != nil && a.fenced.Load() {
		st.State = AgentFenced
	}
	a.load.report(&st, time.Now())
	return st
}

// A history is what has become of an agent so far.
type history struct {
	mu       sync.Mutex // guards the following
	opening  bool
	state    wire.State // of one that is connected
	since    time.Time  // when the state, or whether it is connected, changed
	starts   int        // that succeeded
	failures int        // ends and failed starts without a minute of health
	next     time.Time  // of the next start
	err      string     // of the last failure
	words    []string
	errAt    time.Time
}

// open is when an agent begins to be started.
func (h *history) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening, h.state, h.since, h.next = true, wire.Ready, time.Now(), time.Time{}
}

// up is when an agent is connected.
func (h *history) up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening, h.since = false, time.Now()
	h.starts++
}

// down is when an agent is no longer connected.
func (h *history) down() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Now()
}

// fail is when it is known why an agent has ended or was not started. It
// returns how often that has happened in a row.
func (h *history) fail(err string, words []string) (failures int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.opening {
		h.opening, h.since = false, now
	}
	h.err, h.words, h.errAt = err, words, now
	h.failures++
	return h.failures
}

// forgive begins to count failures anew, and returns how many there were.
func (h *history) forgive() (failures int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	failures, h.failures = h.failures, 0
	return failures
}

// failing returns how often the agent has failed in a row.
func (h *history) failing() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures
}

// become is when a connected agent tells of its state. It returns the one before.
func (h *history) become(s wire.State) (was wire.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was = h.state
	if s != was {
		h.state, h.since = s, time.Now()
	}
	return was
}

// lateSince returns when the agent became late; zero if it is not.
func (h *history) lateSince() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != wire.Late {
		return time.Time{}
	}
	return h.since
}

// plan is when the next start is known.
func (h *history) plan(next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
}

func (h *history) report(st *AgentStatus, connected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !connected && h.opening:
		st.State = AgentStarting
	case !connected:
		st.State, st.NextStart = AgentDown, h.next
	default:
		st.State = [...]AgentState{wire.Ready: AgentReady, wire.Late: AgentLate, wire.NotReady: AgentNotReady}[h.state]
	}
	st.Since, st.Restarts, st.Failures = h.since, max(h.starts-1, 0), h.failures
	st.LastError, st.ErrorAt, st.LastWords = h.err, h.errAt, slices.Clone(h.words)
}

// A load counts requests and how long they take.
type load struct {
	mu                          sync.Mutex // guards the following
	requests, errors, abandoned uint64
	mean                        time.Duration
	window                      time.Time // when max begins to count
	max, before                 time.Duration
}

// served counts a request that was answered. The answer was waited for from asked
// on. If it came at once it had been there while another agent was waited for, and
// may have taken less than it seems.
func (l *load) served(began, asked, done time.Time) {
	took, waited := done.Sub(began), done.Sub(asked)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == 0 {
		l.mean = took
	}
	l.requests++
	if waited < 0 || waited > took/4 || took < l.mean {
		l.mean += (took - l.mean) / 16
	}
	l.turn(done)
	l.max = max(l.max, took)
}

// usual is how long an answer takes.
func (l *load) usual() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mean
}

// turn begins a new minute if it is time.
func (l *load) turn(now time.Time) {
	switch age := now.Sub(l.window); {
	case age >= 2*time.Minute:
		l.window, l.max, l.before = now, 0, 0
	case age >= time.Minute:
		l.window, l.max, l.before = l.window.Add(time.Minute), 0, l.max
	}
}

// failed counts a request that was not answered, or with nonsense.
func (l *load) failed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors++
}

// abandon counts a request that failed because its answer did not come.
func (l *load) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned++
}

func (l *load) report(st *AgentStatus, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	st.Requests, st.Errors, st.Abandoned = l.requests, l.errors, l.abandoned
	st.Mean, st.Max = l.mean, max(l.max, l.before)
}
