package wire

import (
	"syscall"
	"unsafe"
)

// ReadNow is read(2) of a descriptor that does not block (O_NONBLOCK).
//
// The scheduler is not told, as it is with syscall.Read: a thread that is
// preempted in what may be a long system call has its place taken by another,
// and that is woken up for nothing. A system call that does block would stop
// all goroutines in the end.
func ReadNow(fd uintptr, b []byte) (int, error) { return now(syscall.SYS_READ, fd, b) }

// WriteNow is write(2) likewise.
func WriteNow(fd uintptr, b []byte) (int, error) { return now(syscall.SYS_WRITE, fd, b) }

func now(trap, fd uintptr, b []byte) (int, error) {
	for {
		n, _, err := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// unblock makes sure that neither does block: an [os.File] may have been made of
// a descriptor that does.
func unblock(conns ...syscall.RawConn) error {
	for _, c := range conns {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }); cerr != nil {
			return cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
