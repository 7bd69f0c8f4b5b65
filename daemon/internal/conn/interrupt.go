package conn

import (
	"sync/atomic"
	"time"
)

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// An interrupter holds the error of Interrupt.
type interrupter struct{ err atomic.Pointer[error] }

// interrupt sets the error. It reports whether this is the first one.
func (i *interrupter) interrupt(err error) bool { return i.err.CompareAndSwap(nil, &err) }

// interrupted returns the error, or nil.
func (i *interrupter) interrupted() error {
	if err := i.err.Load(); err != nil {
		return *err
	}
	return nil
}
