package linux

import (
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A timeoutGuard makes system calls that may block: the server of a file system
// may be dead, or be a process that does not reply. A call that takes too long is
// abandoned, with its thread. Until it returns, there is no other call for the
// same name.
//
// C differs: it waits until the call returns.
type timeoutGuard struct {
	timeout   time.Duration // of all calls for a request; requestTimeout, more in tests
	remaining time.Duration // time that this request may still wait

	mu      sync.Mutex // guards the following
	pending map[string]bool
}

const (
	// requestTimeout is the time that a request waits, for all of its calls.
	requestTimeout = time.Second
	// maxPending is the largest number of calls that have not returned. Each of
	// them holds a thread.
	maxPending = 64
)

func newTimeoutGuard() *timeoutGuard {
	return &timeoutGuard{timeout: requestTimeout, pending: make(map[string]bool)}
}

// begin starts a request.
func (g *timeoutGuard) begin() { g.remaining = g.timeout }

// A callResult is the result of a call.
type callResult struct {
	fd     int // -1, or open if there is no error
	statfs syscall.Statfs_t
	mount  uint64 // see mountID
}

// call calls f, which sets the result, in a goroutine. The error is PM_ERR_AGAIN if
// f does not return in time. It is the same if call does not call f, because a call
// for the same name, or maxPending calls, have not returned yet, or because the
// request has no time left.
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
