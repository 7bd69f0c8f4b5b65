package daemon

import (
	"sync"
	"time"
)

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
