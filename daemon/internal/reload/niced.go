package reload

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// runNiced runs f at a lower scheduling priority, and returns what f returns. At the usual
// priority, sessions would wait until the kernel takes the CPU from f. A thread cannot get
// its priority back, so it ends with the calling goroutine, which should end soon. f does
// not run on the main thread: that does not end, and its priority is shown as that of the
// process.
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
