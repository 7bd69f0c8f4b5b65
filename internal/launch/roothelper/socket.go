package roothelper

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// A conn is one end of the connection, a pair of SOCK_SEQPACKET sockets. One
// goroutine may receive while others send.
type conn struct{ *net.UnixConn }

// pair returns the two ends of a connection; the second is for another process.
func pair() (conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return conn{}, nil, fmt.Errorf("socketpair: %w", err)
	}
	other := os.NewFile(uintptr(fds[1]), "root helper")
	c, err := newConn(os.NewFile(uintptr(fds[0]), "daemon"))
	if err != nil {
		other.Close()
	}
	return c, other, err
}

// newConn makes a conn from f and closes f.
func newConn(f *os.File) (conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return conn{}, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok || u.LocalAddr().Network() != "unixpacket" {
		c.Close()
		return conn{}, errors.New("not a socket of the root helper")
	}
	return conn{u}, nil
}

// send sends m and the descriptors fds.
func (c conn) send(m message, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix(m.append(nil), oob, nil)
	return err
}

// trySend is send, but returns EAGAIN if the socket is full. A write deadline would be that of
// other goroutines that send, too.
func (c conn) trySend(m message, fds ...int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	var inner error
	err = raw.Write(func(fd uintptr) bool {
		inner = syscall.Sendmsg(int(fd), m.append(nil), oob, nil, syscall.MSG_DONTWAIT)
		return true
	})
	return cmp.Or(err, inner)
}

// maxFiles is the most descriptors that come with a message.
const maxFiles = 2

// ErrDescriptors means that some descriptors of a message did not arrive: this
// process has as many open files as it may have, so the kernel has closed them.
var ErrDescriptors = errors.New("descriptors that were sent have not arrived: too many open files")

// receive waits for the next message. The caller must close files, also if there
// is an error. errMessage and ErrDescriptors concern that message only: the next
// one can be received. With ErrDescriptors m is valid.
func (c conn) receive() (m message, files []*os.File, err error) {
	var b [maxMessage + 1]byte
	var oob [64]byte // the kernel does not pass on descriptors that do not fit
	n, oobn, flags, _, err := c.ReadMsgUnix(b[:], oob[:syscall.CmsgSpace(4*maxFiles)])
	if err != nil {
		return message{}, nil, err
	}
	files = received(oob[:oobn])
	if m, err = parseMessage(b[:n]); err == nil && flags&syscall.MSG_CTRUNC != 0 {
		err = ErrDescriptors
	}
	return m, files, err
}

// received returns the descriptors in the control messages oob.
func received(oob []byte) (files []*os.File) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, msg := range msgs {
		fds, err := syscall.ParseUnixRights(&msg)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// withFDs calls f with the descriptors of files. It does not use Fd, which would
// make them blocking.
func withFDs(files []*os.File, f func(fds []int) error) error {
	fds := make([]int, 0, len(files))
	var next func() error
	next = func() error {
		if len(fds) == len(files) {
			return f(fds)
		}
		raw, err := files[len(fds)].SyscallConn()
		if err != nil {
			return err
		}
		var inner error
		if err := raw.Control(func(fd uintptr) {
			fds = append(fds, int(fd))
			inner = next()
		}); err != nil {
			return err
		}
		return inner
	}
	return next()
}
