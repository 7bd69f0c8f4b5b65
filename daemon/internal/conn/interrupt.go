package conn

import (
	"sync/atomic"
	"time"
)

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// An interrupter holds the error of Interrupt.
type interrupter struct {
	err  atomic.Pointer[error]
	over atomic.Pointer[chan struct{}] // is closed by Interrupt and Abort; nil if no call of ended waits for them
}

// interrupt sets the error. It reports whether this is the first one.
func (i *interrupter) interrupt(err error) bool {
	first := i.err.CompareAndSwap(nil, &err)
	i.closeEnded()
	return first
}

// closedChan is a channel that is closed.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// closeEnded closes the channel of ended.
func (i *interrupter) closeEnded() {
	if c := i.over.Swap(&closedChan); c != nil && c != &closedChan {
		close(*c)
	}
}

// ended returns a channel that is closed when Interrupt or Abort has been called.
func (i *interrupter) ended() <-chan struct{} {
	c := make(chan struct{})
	for !i.over.CompareAndSwap(nil, &c) {
		if old := i.over.Load(); old != nil {
			return *old
		}
	}
	return c
}

// interrupted returns the error, or nil.
func (i *interrupter) interrupted() error {
	if err := i.err.Load(); err != nil {
		return *err
	}
	return nil
}
