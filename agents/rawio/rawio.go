// Package rawio makes unannounced system calls: the Go scheduler is not told of
// them, as it is of those of package syscall.
//
// A thread that has announced a call may have its place in the scheduler taken by
// another thread while the call lasts. For a short call that costs more than the
// call: a thread is woken up for nothing. An unannounced call keeps the place, and
// cannot be interrupted: if it blocks, the next garbage collection waits for it,
// and all goroutines wait for that.
//
// So a call may be unannounced if none of the following can happen, whatever the
// program at the other end does. The comment of each function says why. There is one
// exception, a pipe: see [Read].
//
//   - It waits. The descriptor has O_NONBLOCK, the call has MSG_DONTWAIT, or the
//     kernel writes the file from memory.
//   - It closes a file of another program's. A message at a Unix socket can hold
//     descriptors (SCM_RIGHTS), and a read that takes the message closes them. If
//     the last descriptor of a TCP socket is among them, that lasts as long as the
//     sender's SO_LINGER says.
//   - It copies much: [MaxSyscallBytes] is the most.
//
// close(2) is always announced. epoll_ctl(2) never is, as packages syscall and
// golang.org/x/sys/unix have it: it copies nothing and closes nothing.
package rawio

import (
	"strconv"
	"syscall"
	"unsafe"
)

// MaxSyscallBytes is how many bytes one call should copy at most. Until it returns
// no other goroutine can run on its thread.
const MaxSyscallBytes = 256 << 10

// Read is read(2) of a descriptor with O_NONBLOCK: that of
//
//   - a pipe or a TCP socket, which hold no descriptors, so that a read closes
//     nothing;
//   - a netlink socket on which no dump was requested: a read would go on with it;
//   - a Unix socket that cannot hold descriptors: SO_PASSRIGHTS (Linux 6.16) is off
//     since before the peer connected. [ReadNoRights] is for any other.
//
// A pipe has one lock for both ends. The other end holds it while it copies to or
// from its own memory, and where that has to be fetched (from swap, by FUSE, by
// userfaultfd(2)) a read or a write waits for it, even with O_NONBLOCK: seen on
// Linux 6.18. So a pipe must lead to a program that is trusted not to do that on
// purpose; pmcd's lead to agents.
func Read(fd uintptr, b []byte) (int, error) {
	return unannounced(syscall.SYS_READ, fd, b, 0)
}

// Write is write(2) to a descriptor with O_NONBLOCK, one that [Read] may read. At a
// socket it only queues. To a Unix socket that may hold descriptors a write is
// announced: before Linux 6.8 it may run the collector of sockets in flight, and
// that closes what other programs have left. [NonblockWriter] does so.
func Write(fd uintptr, b []byte) (int, error) {
	return unannounced(syscall.SYS_WRITE, fd, b, 0)
}

// Recv is recv(2) with MSG_DONTWAIT: [Read] of a socket that has no O_NONBLOCK.
func Recv(fd uintptr, b []byte) (int, error) {
	return unannounced(sysRecvfrom, fd, b, syscall.MSG_DONTWAIT)
}

// Send is send(2) with MSG_DONTWAIT: [Write] to a socket that has no O_NONBLOCK.
func Send(fd uintptr, b []byte) (int, error) {
	return unannounced(sysSendto, fd, b, sendFlags)
}

const sendFlags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL

// Pread is pread(2) of a file of /proc or /sys that the kernel writes from memory,
// without a lock that is held for long. O_NONBLOCK makes no difference to those.
// The caller knows the file, and asks fstatfs(2) whose it is: a container may have
// one of a program's (FUSE) in its place, which may let the call wait.
//
// On a 32-bit processor the call is announced: there the offset is two words, in
// registers that depend on the processor.
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

// unannounced makes an unannounced call. Those that have no flags do not look at them.
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
