package linux

import (
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A patience is for calls of the kernel that may not return: it waits for file
// systems whose server is dead, or is a process that has no wish to answer. A
// call that takes too long is left behind, with its thread, and what it was asked
// for counts as busy until it returns.
//
// C differs: it waits.
type patience struct {
	left time.Duration // of this request

	mu   sync.Mutex // guards the following
	busy map[string]bool
}

const (
	// patienceTime is how long a request waits, in all.
	patienceTime = time.Second
	// maxBusy is how many calls may be left behind: each has a thread.
	maxBusy = 64
)

func newPatience() *patience { return &patience{busy: make(map[string]bool)} }

// begin is the begin of a request.
func (p *patience) begin() { p.left = patienceTime }

// An answer is what a call has found out.
type answer struct {
	fd     int // open if there is no error, unless it is -1
	statfs syscall.Statfs_t
}

// ask calls f, which sets the answer. PM_ERR_AGAIN is one that does not return in
// time, or that is not made because one for the same name has not returned yet.
func (p *patience) ask(name string, f func(a *answer) error) (*answer, error) {
	p.mu.Lock()
	if p.left <= 0 || p.busy[name] || len(p.busy) >= maxBusy {
		p.mu.Unlock()
		return nil, pdu.ErrnoAgain
	}
	p.busy[name] = true
	p.mu.Unlock()
	a := &answer{fd: -1}
	done, late := make(chan error), make(chan struct{})
	began := time.Now()
	go func() { // ends with the call
		err := f(a)
		if err != nil {
			a.close()
		}
		p.mu.Lock()
		delete(p.busy, name)
		p.mu.Unlock()
		select {
		case done <- err:
		case <-late:
			a.close()
		}
	}()
	t := time.NewTimer(p.left)
	defer t.Stop()
	select {
	case err := <-done:
		p.left -= time.Since(began)
		return a, err
	case <-t.C:
		p.left = 0
		close(late)
		return nil, pdu.ErrnoAgain
	}
}

func (a *answer) close() {
	if a.fd >= 0 {
		syscall.Close(a.fd)
		a.fd = -1
	}
}
