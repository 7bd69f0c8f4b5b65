package rawio

import (
	"errors"
	"syscall"
	"unsafe"
)

// Unix sockets in which descriptors may be queued. A read peeks first: recvmsg(2)
// with MSG_PEEK and without a control buffer installs and closes nothing, since the
// queue keeps its reference, and MSG_CTRUNC tells of descriptors. Then it takes the
// bytes that it has seen, and no more. There is only one reader, so those are the
// same bytes, without descriptors.
//
// An urgent byte would be passed over by the peek, and dropped with its descriptors
// by the read. Where one is next, Linux 6.9 and its like peek for ever. So such a
// socket has SO_OOBINLINE, which makes it a byte like others.

// ErrRights is the error for a peer at a Unix socket that sends descriptors. PCP
// has no use for them.
var ErrRights = errors.New("sends file descriptors (SCM_RIGHTS)")

// RefuseRights prepares a Unix socket for [ReadNoRights] and [WaitNoRights]. It must
// be called before anything is read.
func RefuseRights(fd uintptr) error {
	set := func(option, value int) error {
		return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, value)
	}
	return errors.Join(
		// What is peeked must be what is taken.
		set(syscall.SO_OOBINLINE, 1),
		// MSG_CTRUNC must mean descriptors.
		set(syscall.SO_PASSCRED, 0),
		set(syscall.SO_PASSSEC, 0),
	)
}

// ReadNoRights is [Recv] from a Unix socket in which descriptors may be queued. It
// leaves a message that has some, and what is behind that, in the socket: the error
// is [ErrRights]. The caller is the only reader.
func ReadNoRights(fd uintptr, b []byte) (int, error) {
	return readNoRights(fd, b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// WaitNoRights is [ReadNoRights] that waits for input if the socket blocks. The wait
// is announced. It ends with EAGAIN after the socket's SO_RCVTIMEO.
func WaitNoRights(fd uintptr, b []byte) (int, error) {
	return readNoRights(fd, b, syscall.MSG_PEEK)
}

func readNoRights(fd uintptr, b []byte, flags uintptr) (int, error) {
	n, err := peek(fd, b, flags)
	if n == 0 || err != nil {
		return 0, err
	}
	return Recv(fd, b[:n])
}

// peek is recvmsg(2) without a control buffer. It is announced unless flags say that
// it does not wait.
func peek(fd uintptr, b []byte, flags uintptr) (int, error) {
	vec := syscall.Iovec{Base: unsafe.SliceData(b)}
	vec.SetLen(len(b))
	msg := syscall.Msghdr{Iov: &vec, Iovlen: 1}
	for {
		var n uintptr
		var err syscall.Errno
		if flags&syscall.MSG_DONTWAIT != 0 {
			n, _, err = syscall.RawSyscall(sysRecvmsg, fd, uintptr(unsafe.Pointer(&msg)), flags)
		} else {
			n, _, err = syscall.Syscall(sysRecvmsg, fd, uintptr(unsafe.Pointer(&msg)), flags)
		}
		switch {
		case err == syscall.EINTR:
		case err != 0:
			return 0, err
		case msg.Flags&syscall.MSG_CTRUNC != 0:
			return 0, ErrRights
		default:
			return int(n), nil
		}
	}
}
