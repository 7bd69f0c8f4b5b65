package testutil

import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refuse calls f on a thread for which these system calls fail with errno, as for a process with a
// filter of system calls (seccomp(2)). Processes that f starts have the filter, too. Goroutines that f
// starts do not.
func Refuse(t testing.TB, errno syscall.Errno, calls []uintptr, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err = refuse(errno, calls); err == nil {
			f()
		}
	}()
	<-done
	if err != nil {
		Missing(t, "no filter of system calls: ", err)
	}
}

// refuse sets the filter for this thread.
func refuse(errno syscall.Errno, calls []uintptr) error {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, n := range calls {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(calls) - i), K: uint32(n)})
	}
	const allow, fail = 0x7fff0000, 0x00050000 // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO of linux/seccomp.h
	program = append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: fail | uint32(errno)})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const modeFilter = 2 // SECCOMP_MODE_FILTER
	return unix.Prctl(unix.PR_SET_SECCOMP, modeFilter, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
