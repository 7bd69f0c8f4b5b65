package reload

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"
)

// runNiced runs f at a lower scheduling priority, and returns what f returns. Otherwise
// sessions would wait until the kernel takes the CPU from f. The calling goroutine
// should end soon: its thread ends with it, as it cannot get its priority back. The
// main thread does not end, and its priority is shown as that of the process, so f
// does not run on it.
func runNiced[T any](f func() T) T {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		c := make(chan T)
		go func() { c <- runNiced(f) }() // on another thread
		return <-c
	}
	const increment = 3 // nice(2)
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		unix.Setpriority(unix.PRIO_PROCESS, 0, 20-p+increment) // the system call returns 20 less the value
	}
	return f()
}

// await returns what f returns. If ctx ends first that is an error, and f goes on
// alone: a file or a name server can take any time.
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
