package daemon

import (
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
)

// A history is what has become of an agent so far.
type history struct {
	mu         sync.Mutex // guards the following
	opening    bool
	state      wire.State // of one that is connected
	since      time.Time  // when the state, or whether it is connected, changed
	starts     int        // that succeeded
	failures   int        // ends and failed starts without a minute of health
	next       time.Time  // of the next start
	err        string     // of the last failure
	stderrTail []string
	errAt      time.Time
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
func (h *history) fail(err string, stderrTail []string) (failures int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.opening {
		h.opening, h.since = false, now
	}
	h.err, h.stderrTail, h.errAt = err, stderrTail, now
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
	st.LastError, st.ErrorAt, st.StderrTail = h.err, h.errAt, slices.Clone(h.stderrTail)
}
