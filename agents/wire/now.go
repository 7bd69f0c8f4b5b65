package wire

import (
	"io"
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

// A getter is an io.Reader of what a RawConn stands for. It is used by one
// goroutine at a time, and allocates nothing.
type getter struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once: a closure a read would cost memory

	b   []byte
	n   int
	err error
}

func (g *getter) init(raw syscall.RawConn) {
	g.raw = raw
	g.try = func(fd uintptr) bool {
		g.n, g.err = ReadNow(fd, g.b)
		return g.err != syscall.EAGAIN
	}
}

// Read waits for input, until the deadline for reading. b must not be empty.
func (g *getter) Read(b []byte) (int, error) {
	g.b, g.n, g.err = b[:min(len(b), atOnce)], 0, nil
	err := g.raw.Read(g.try)
	g.b = nil
	switch {
	case err != nil:
		return 0, err
	case g.err == nil && g.n == 0:
		return 0, io.EOF
	}
	return g.n, g.err
}
