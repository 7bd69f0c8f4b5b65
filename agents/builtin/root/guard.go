package root

import (
	"errors"
	"time"
)

// A guard calls functions that may block because of what users and containers have
// made: a file system of theirs that does not reply, or memory of a process that is
// mapped from one. Such a call is abandoned after a while. Its goroutine remains until
// the call returns, so their number has a limit.
type guard struct {
	slots   chan struct{} // has an element for each call
	timeout time.Duration
}

var guardTimeout = time.Second // more in tests

const maxGuarded = 16 // calls at a time, abandoned ones included

func newGuard() *guard { return &guard{make(chan struct{}, maxGuarded), guardTimeout} }

var errBlocked = errors.New("no answer from a file system or process of a user")

// guarded returns the result of f, or errBlocked if that takes too long. Then f may
// still run: it uses nothing that is written again.
func guarded[T any](g *guard, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	t := time.NewTimer(g.timeout)
	defer t.Stop()
	select {
	case g.slots <- struct{}{}:
	case <-t.C:
		return none, errBlocked
	}
	done := make(chan result, 1)
	go func() { // ends with f
		defer func() { <-g.slots }()
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-t.C:
		return none, errBlocked
	}
}
