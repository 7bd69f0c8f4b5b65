package rawio

import (
	"errors"
	"syscall"
	"unsafe"
)

// This file reads Unix sockets in which descriptors may be queued. A read peeks
// first: recvmsg(2) with MSG_PEEK and without a control buffer installs and closes
// no descriptors, since the queue keeps its reference, and MSG_CTRUNC reports that
// there are some. Then the read takes the bytes that it has peeked, and no more.
// There is only one reader, so these are the same bytes, without descriptors.
//
// The peek would skip an urgent byte, and the read would drop it with its
// descriptors. If an urgent byte is next, kernels like Linux 6.9 peek for ever. So
// such a socket has SO_OOBINLINE, which makes an urgent byte a byte like others.

// ErrRights is the error for a peer that sends descriptors over a Unix socket. PCP
// has no use for them. The functions of this package return it as it is, so that the
// readers of each request need only a comparison.
var ErrRights = errors.New("sends file descriptors (SCM_RIGHTS)")

// RefuseRights prepares a Unix socket for [ReadNoRights] and [WaitNoRights]. It must
// be called before anything is read.
func RefuseRights(fd uintptr) error {
	set := func(option, value int) error {
		return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, value)
	}
	return errors.Join(
		// The read must take the bytes that were peeked, urgent ones too.
		set(syscall.SO_OOBINLINE, 1),
		// MSG_CTRUNC must mean descriptors, not other control messages.
		set(syscall.SO_PASSCRED, 0),
		set(syscall.SO_PASSSEC, 0),
	)
}

// ReadNoRights is [Recv] from a Unix socket in which descriptors may be queued. If
// the peek meets a message with descriptors, ReadNoRights takes nothing and returns
// [ErrRights], even if there are bytes before that message. The caller must be the
// only reader.
func ReadNoRights(fd uintptr, b []byte) (int, error) {
	return readNoRights(fd, b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// WaitNoRights is like [ReadNoRights], but waits for input if the socket is in
// blocking mode. The wait is announced. It ends with EAGAIN after the socket's
// SO_RCVTIMEO.
func WaitNoRights(fd uintptr, b []byte) (int, error) {
	return readNoRights(fd, b, syscall.MSG_PEEK)
}

// readNoRights peeks with flags, and takes the bytes that it has peeked.
func readNoRights(fd uintptr, b []byte, flags uintptr) (int, error) {
	n, err := peek(fd, b, flags)
	if n == 0 || err != nil {
		return 0, err
	}
	return Recv(fd, b[:n])
}

// peek is recvmsg(2) without a control buffer. The call is announced unless flags
// have MSG_DONTWAIT.
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
