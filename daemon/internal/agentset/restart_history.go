package agentset

import (
	"time"
)

// A restartHistory has the number of starts of an agent, and the last failure.
type restartHistory struct {
	starts     int       // that succeeded
	failures   int       // ends and failed starts since it last was connected for stableAfter
	next       time.Time // of the next start; zero if none is planned
	lastError  string    // why it failed the last time
	errorAt    time.Time
	stderrTail []string
}

// resetFailures is the event that an agent is stable, or that an admin wants it to
// be started. It returns how often the agent had failed in a row.
func (l *lifecycle) resetFailures() (failures int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failures, l.restarts.failures = l.restarts.failures, 0
	return failures
}

// failed notes a failure, and plans the next start if there is to be one.
func (h *restartHistory) failed(reason string, stderrTail []string, again bool) (failures int, delay time.Duration) {
	now := time.Now()
	h.failures++
	h.lastError, h.errorAt, h.stderrTail = reason, now, stderrTail
	h.next = time.Time{}
	if again {
		delay = min(minBackoff<<min(h.failures-1, 6), maxBackoff)
		h.next = now.Add(delay)
	}
	return h.failures, delay
}

// failures returns how often the agent has failed in a row.
func (l *lifecycle) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restarts.failures
}
