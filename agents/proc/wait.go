package proc

import (
	"syscall"
	"unsafe"
)

// A siginfo is what waitid(2) tells of a child (siginfo_t in <signal.h>).
type siginfo struct {
	_     [2]int32
	code  int32
	child struct {
		_      [0]uintptr // alignment
		pid    int32
		uid    uint32
		status int32
	}
	_ [128]byte // more than the rest
}

// From <sys/wait.h> and <signal.h>.
const (
	pPID      = 1
	wExited   = 0x4
	wNoWait   = 0x1000000
	cldExited = 1
	cldDumped = 3
)

// await waits until the child pid has ended, and leaves it to be reaped. A
// child that cannot be waited for has ended in a way that nobody knows.
func await(pid int) syscall.WaitStatus {
	for {
		var si siginfo
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid),
			uintptr(unsafe.Pointer(&si)), wExited|wNoWait, 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return 0
		case si.code == cldExited:
			return syscall.WaitStatus(si.child.status << 8)
		case si.code == cldDumped:
			return syscall.WaitStatus(si.child.status | 0x80)
		}
		return syscall.WaitStatus(si.child.status)
	}
}
