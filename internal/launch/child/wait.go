package child

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigchld is the layout of a unix.Siginfo for SIGCHLD (siginfo_t in <signal.h>).
// Package unix does not export these fields.
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

// waitExit waits until the child pid has ended, and does not reap it. It returns
// 0 if the child cannot be waited for: then the status is not known.
//
// Where the kernel has non-blocking pidfds (Linux 5.10) the poller waits, and no
// thread is blocked.
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
