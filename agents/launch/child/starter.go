package child

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
)

// A Starter starts children that get SIGTERM when this process ends, in whatever
// way (PR_SET_PDEATHSIG of prctl(2)).
//
// For the kernel the parent of a child is the thread that has forked it, so one
// thread does, which lasts as long as the Starter. There are limits. The signal
// is for the child, not for what the child starts. The kernel forgets it when
// the child changes its user, as many PMDAs do, or executes a set-user-ID
// program: such a child ends with its pipe or its connection, and a child that
// stays in place is expected to call prctl again.
//
// A nil Starter starts children without that.
type Starter struct {
	calls  chan startCall
	close  sync.Once
	closed chan struct{} // by Close
}

type startCall struct {
	start func()
	done  chan struct{} // closed when it is over
}

// NewStarter returns a Starter. Around, if it is not nil, is called on its thread
// for each start, and calls start.
func NewStarter(around func(start func())) *Starter {
	s := &Starter{calls: make(chan startCall), closed: make(chan struct{})}
	if around == nil {
		around = func(start func()) { start() }
	}
	go func() { // ends by Close
		runtime.LockOSThread() // and the thread ends with the goroutine
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

// Start runs a child, as the function [Start] does.
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

var errClosed = errors.New("no process is started any more")

// Close ends the thread, and by that all children that there are. A Start that
// comes later, as of one who was given up for the end of the program, is an error.
func (s *Starter) Close() {
	if s != nil {
		s.close.Do(func() { close(s.closed) })
	}
}
