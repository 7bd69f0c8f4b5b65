package rawio

import (
	"errors"
	"syscall"
	"unsafe"
)

// ErrRights is the error for a peer at a Unix socket that sends descriptors. PCP
// has no use for them.
var ErrRights = errors.New("sends file descriptors (SCM_RIGHTS)")

// RefuseRights prepares a Unix socket for [ReadNoRights] and [PeekNoRights]. It must
// be called before anything is read.
func RefuseRights(fd int) error {
	return errors.Join(
		// What is peeked must be what is taken, see [Read].
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_OOBINLINE, 1),
		// MSG_CTRUNC must mean descriptors.
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PASSCRED, 0),
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PASSSEC, 0),
	)
}

// ReadNoRights is [Read] of a Unix socket in which descriptors may be queued.
// It leaves a message that has some, and what is behind that, in the socket: the
// error is ErrRights. The caller is the only reader.
func ReadNoRights(fd uintptr, b []byte) (int, error) {
	n, err := peek(fd, b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if n == 0 || err != nil {
		return 0, err
	}
	return Read(fd, b[:n])
}

// PeekNoRights reads from a Unix socket likewise, but leaves all in it, and waits
// if the socket blocks.
func PeekNoRights(fd uintptr, b []byte) (int, error) { return peek(fd, b, syscall.MSG_PEEK) }

// peek is recvmsg(2) without a control buffer. It is not announced if flags say
// that it does not wait.
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
