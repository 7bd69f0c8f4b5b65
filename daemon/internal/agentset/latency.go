package agentset

import (
	"sync"
	"time"
)

// A latencyStats counts the requests of an agent and how long they take.
type latencyStats struct {
	mu                          sync.Mutex // guards the following, as several clients may use an agent
	requests, errors, abandoned uint64
	mean                        time.Duration
	window                      time.Time // when max begins to count
	max, before                 time.Duration
}

// answered counts a request that took from began to done. asked is when the session began
// to wait for the answer. If the answer was there at that time, the session was waiting
// for another agent before, and the agent may have taken less.
func (l *latencyStats) answered(began, asked, done time.Time) {
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
	l.advance(done)
	l.max = max(l.max, took)
}

// typical returns how long an answer takes.
func (l *latencyStats) typical() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mean
}

// advance begins a new minute if the current one is over. The caller holds mu.
func (l *latencyStats) advance(now time.Time) {
	switch age := now.Sub(l.window); {
	case age >= 2*time.Minute:
		l.window, l.max, l.before = now, 0, 0
	case age >= time.Minute:
		l.window, l.max, l.before = l.window.Add(time.Minute), 0, l.max
	}
}

// requestFailed counts a request that was not answered, or had an invalid answer.
func (l *latencyStats) requestFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors++
}

// requestAbandoned counts a request that failed because its answer did not come.
func (l *latencyStats) requestAbandoned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned++
}

func (l *latencyStats) report(st *Status, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	st.Requests, st.Errors, st.Abandoned = l.requests, l.errors, l.abandoned
	st.Mean, st.Max = l.mean, max(l.max, l.before)
}
