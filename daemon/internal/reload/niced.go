package reload

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"
)

// runNiced returns what f returns, which computes with less right to a CPU than
// sessions: they would wait for a slice of its time otherwise. It is for a
// goroutine that ends then, and its thread with it, which could not get its right
// back. The main thread does not end, and is what the process is judged by.
func runNiced[T any](f func() T) T {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		c := make(chan T)
		go func() { c <- runNiced(f) }() // on another thread
		return <-c
	}
	const nicer = 3 // nice(2)
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		unix.Setpriority(unix.PRIO_PROCESS, 0, 20-p+nicer) // the system call returns 20 less the value
	}
	return f()
}

// await returns what f returns. If ctx ends first that is an error, and f is
// left alone: there is no end to how long a file or a name server can take.
func await[T any](ctx context.Context, f func() T) (v T, err error) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	}
}
