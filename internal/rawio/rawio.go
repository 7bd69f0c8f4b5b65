// Package rawio makes unannounced system calls: calls that are not announced to the Go
// scheduler, as those of package syscall are.
//
// During an announced call the scheduler may give the thread's P, the right to run Go
// code, to another thread. For a short call that costs more than the call itself: a
// thread is woken up for nothing. During an unannounced call the thread keeps its P and
// cannot be preempted. If the call blocks, the next garbage collection waits for it, and
// all goroutines wait for the garbage collection.
//
// So a call may be unannounced only if it does none of the following, whatever the
// program at the other end does. The comment of each function says why. There is
// one exception, a pipe: see [Read].
//
//   - Wait. The descriptor has O_NONBLOCK, the call has MSG_DONTWAIT, or the kernel
//     writes the file from memory.
//   - Close a file of another program. A message in a Unix socket can hold
//     descriptors (SCM_RIGHTS), and a read that takes the message closes them. If
//     one of them is the last descriptor of a TCP socket, the close can take as
//     long as the sender's SO_LINGER.
//   - Copy many bytes. [MaxSyscallBytes] is the limit.
//
// close(2) is always announced. epoll_ctl(2) is never announced, also in packages
// syscall and golang.org/x/sys/unix: it copies nothing and closes nothing.
package rawio

import (
	"strconv"
	"syscall"
	"unsafe"
)

// MaxSyscallBytes is the largest number of bytes that one call should copy. Until
// the call returns the thread runs no other goroutine.
const MaxSyscallBytes = 256 << 10

// Read is read(2) of a descriptor with O_NONBLOCK. The descriptor must be one of
//
//   - a pipe or a TCP socket: these hold no descriptors, so a read closes nothing;
//   - a netlink socket on which no dump was requested: a read would continue the
//     dump;
//   - a Unix socket that cannot hold descriptors, because SO_PASSRIGHTS (Linux 6.16)
//     was turned off before the peer connected. For other Unix sockets use
//     [ReadNoRights].
//
// A pipe has one lock for both ends. The process at the other end holds the lock
// while the kernel copies to or from that process's memory. If this memory has to
// be fetched first (from swap, by FUSE, by userfaultfd(2)), a read or a write waits,
// even with O_NONBLOCK: seen on Linux 6.18. So the program at the other end of a
// pipe must be trusted not to do that on purpose. pmcd's pipes lead to agents.
func Read(fd uintptr, b []byte) (int, error) {
	return unannounced(syscall.SYS_READ, fd, b, 0)
}

// Recv is recv(2) with MSG_DONTWAIT. It is [Read] for a socket without O_NONBLOCK.
func Recv(fd uintptr, b []byte) (int, error) {
	return unannounced(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT)
}

// Pread is pread(2) of a file of /proc or /sys that the kernel writes from memory,
// without a lock that is held for long. O_NONBLOCK has no effect on such files. The
// caller must know the file, and must check with fstatfs(2) that it is on the
// kernel's file system: in a container the path may lead to a file of a FUSE
// program, and that program can make the call wait.
//
// On a 32-bit processor the call is announced: there the offset is passed in two
// registers, and which ones depends on the processor.
func Pread(fd uintptr, b []byte, off int64) (int, error) {
	for {
		n, err := pread(fd, b, off)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func pread(fd uintptr, b []byte, off int64) (int, error) {
	if strconv.IntSize < 64 {
		return syscall.Pread(int(fd), b, off)
	}
	n, _, err := syscall.RawSyscall6(syscall.SYS_PREAD64, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(off), 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}

// Poll is poll(2) of one descriptor with a timeout of 0. It returns those of the events that
// have happened, and POLLERR and others that need not be asked for; 0 if there are none.
func Poll(fd uintptr, events int16) (int16, error) {
	p := struct { // struct pollfd
		fd              int32
		events, revents int16
	}{int32(fd), events, 0}
	var timeout syscall.Timespec
	for {
		_, _, err := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
		switch err {
		case 0:
			return p.revents, nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// Statfs is statfs(2) of a file system that has these numbers in memory. The caller must
// know the type of the file system, and that path is a mount point of this process, as are
// all mount points above it. Then the kernel has the directories of path in memory.
//
// On a 32-bit processor the call is announced: there its arguments depend on the processor.
func Statfs(path string, st *syscall.Statfs_t) error {
	if strconv.IntSize < 64 {
		return syscall.Statfs(path, st)
	}
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	for {
		_, _, err := syscall.RawSyscall(syscall.SYS_STATFS, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(st)), 0)
		switch err {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return err
		}
	}
}

// unannounced makes an unannounced call. Calls without a flags argument ignore
// flags.
func unannounced(trap, fd uintptr, b []byte, flags uintptr) (int, error) {
	for {
		n, _, err := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// announced makes an announced call.
func announced(trap, fd uintptr, b []byte, flags uintptr) (int, error) {
	for {
		n, _, err := syscall.Syscall6(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
