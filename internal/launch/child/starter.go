package child

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
)

// A Starter starts children that get SIGTERM when this process ends, also when it
// is killed (PR_SET_PDEATHSIG of prctl(2)).
//
// The kernel sends the signal when the thread that forked the child ends.
// Therefore one thread, which lives as long as the Starter, starts all children.
// There are limits. The child gets the signal, but the processes that it starts
// do not. The kernel cancels the signal when the child changes its user, as many
// PMDAs do, or executes a set-user-ID program. Such a child should end when its
// pipe or its connection is closed, or call prctl again.
//
// A nil Starter starts children without the signal.
type Starter struct {
	calls  chan startCall
	close  sync.Once
	closed chan struct{} // closed by Close
}

// A startCall is a start for the thread of a Starter.
type startCall struct {
	start func()
	done  chan struct{} // closed when start has returned
}

// NewStarter returns a Starter. If around is not nil, it is called for each start
// on the thread of the Starter, and must call start.
func NewStarter(around func(start func())) *Starter {
	s := &Starter{calls: make(chan startCall), closed: make(chan struct{})}
	if around == nil {
		around = func(start func()) { start() }
	}
	go func() { // ends by Close
		runtime.LockOSThread() // without unlock: the thread ends with the goroutine
		for {
			select {
			case call := <-s.calls:
				around(call.start)
				close(call.done)
			case <-s.closed:
				return
			}
		}
	}()
	return s
}

// Start runs a child as the function [Start] does.
func (s *Starter) Start(spec Spec) (p *Process, err error) {
	if s == nil {
		return Start(spec)
	}
	spec.deathSignal = syscall.SIGTERM
	c := startCall{start: func() { p, err = Start(spec) }, done: make(chan struct{})}
	select {
	case s.calls <- c:
		<-c.done
		return p, err
	case <-s.closed:
		return nil, errClosed
	}
}

var errClosed = errors.New("pmcd is ending and starts no more processes")

// Close ends the thread, and by that all children. A later Start, for example by
// a goroutine that the end of the program did not wait for, returns an error.
func (s *Starter) Close() {
	if s != nil {
		s.close.Do(func() { close(s.closed) })
	}
}
