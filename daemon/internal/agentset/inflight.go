package agentset

import (
	"context"
	"sync"
	"time"
)

// An inflight counts the requests that use a connection to an agent. A reload that
// stops the agent waits for them and lets no others begin.
type inflight struct {
	mu      sync.Mutex // guards the following, as several clients may use an agent
	n       int
	drained chan struct{} // not nil once no request may begin; closed when n is 0
}

// acquire reports whether a request may use the connection. If so release must
// be called after it.
func (f *inflight) acquire() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained != nil {
		return false
	}
	f.n++
	return true
}

func (f *inflight) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 && f.drained != nil {
		close(f.drained)
	}
}

func (f *inflight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// drain returns when no request uses the connection, after limit, or when ctx
// ends. It is called once.
func (f *inflight) drain(ctx context.Context, limit time.Duration) {
	f.mu.Lock()
	f.drained = make(chan struct{})
	if f.n == 0 {
		close(f.drained)
	}
	f.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-f.drained:
	case <-timer.C:
	case <-ctx.Done():
	}
}
