package child

import (
	"os"
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

// waitExit waits until the child pid has ended, and leaves it to be reaped. A
// child that cannot be waited for has ended in a way that nobody knows.
//
// Where the kernel tells of the end by a descriptor (Linux 5.10) the wait is
// the poller's, and takes no thread.
func waitExit(pid int) syscall.WaitStatus {
	var si unix.Siginfo
	ended := func(uintptr) bool { return waitid(pid, &si, unix.WNOHANG) != 0 || si.Signo != 0 }
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		f := os.NewFile(uintptr(fd), "pidfd")
		if raw, err := f.SyscallConn(); err == nil {
			raw.Read(ended)
		}
		f.Close()
	}
	err := waitid(pid, &si, 0)
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

func waitid(pid int, si *unix.Siginfo, options int) (err syscall.Errno) {
	err = unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Waitid(unix.P_PID, pid, si, unix.WEXITED|unix.WNOWAIT|options, nil).(syscall.Errno)
	}
	return err
}
