package linux

import (
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A timeoutGuard is for calls of the kernel that may not return: it waits for file
// systems whose server is dead, or is a process that has no wish to answer. A
// call that takes too long is left behind, with its thread, and what it was asked
// for counts as busy until it returns.
//
// C differs: it waits.
type timeoutGuard struct {
	remaining time.Duration // of this request

	mu      sync.Mutex // guards the following
	pending map[string]bool
}

const (
	// requestTimeout is how long a request waits, in all.
	requestTimeout = time.Second
	// maxPending is how many calls may be left behind: each has a thread.
	maxPending = 64
)

func newTimeoutGuard() *timeoutGuard { return &timeoutGuard{pending: make(map[string]bool)} }

// begin is the begin of a request.
func (g *timeoutGuard) begin() { g.remaining = requestTimeout }

// A callResult is what a call has found out.
type callResult struct {
	fd     int // open if there is no error, unless it is -1
	statfs syscall.Statfs_t
}

// call calls f, which sets the result. PM_ERR_AGAIN is one that does not return in
// time, or that is not made because one for the same name has not returned yet.
func (g *timeoutGuard) call(name string, f func(r *callResult) error) (*callResult, error) {
	g.mu.Lock()
	if g.remaining <= 0 || g.pending[name] || len(g.pending) >= maxPending {
		g.mu.Unlock()
		return nil, pdu.ErrnoAgain
	}
	g.pending[name] = true
	g.mu.Unlock()
	r := &callResult{fd: -1}
	done, abandoned := make(chan error), make(chan struct{})
	start := time.Now()
	go func() { // ends with the call
		err := f(r)
		if err != nil {
			r.close()
		}
		g.mu.Lock()
		delete(g.pending, name)
		g.mu.Unlock()
		select {
		case done <- err:
		case <-abandoned:
			r.close()
		}
	}()
	t := time.NewTimer(g.remaining)
	defer t.Stop()
	select {
	case err := <-done:
		g.remaining -= time.Since(start)
		return r, err
	case <-t.C:
		g.remaining = 0
		close(abandoned)
		return nil, pdu.ErrnoAgain
	}
}

func (r *callResult) close() {
	if r.fd >= 0 {
		syscall.Close(r.fd)
		r.fd = -1
	}
}
