package proc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sigchld is the part of a unix.Siginfo that package unix keeps to itself
// (siginfo_t in <signal.h>, for SIGCHLD).
type sigchld struct {
	_      [3]int32
	_      [0]uintptr // alignment
	pid    int32
	uid    uint32
	status int32
}

// From <bits/siginfo-consts.h>.
const (
	cldExited = 1
	cldDumped = 3
)

// await waits until the child pid has ended, and leaves it to be reaped. A
// child that cannot be waited for has ended in a way that nobody knows.
func await(pid int) syscall.WaitStatus {
	var si unix.Siginfo
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Waitid(unix.P_PID, pid, &si, unix.WEXITED|unix.WNOWAIT, nil).(syscall.Errno)
	}
	status := (*sigchld)(unsafe.Pointer(&si)).status
	switch {
	case err != 0:
		return 0
	case si.Code == cldExited:
		return syscall.WaitStatus(status << 8)
	case si.Code == cldDumped:
		return syscall.WaitStatus(status | 0x80)
	}
	return syscall.WaitStatus(status)
}
