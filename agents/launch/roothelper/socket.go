package roothelper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// A conn is one end of the socket pair. One goroutine may receive while others
// send.
type conn struct{ *net.UnixConn }

// pair returns two ends, the second for another process.
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

// newConn returns the end that f is. It closes f.
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

// send sends m with descriptors.
func (c conn) send(m message, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix(m.append(nil), oob, nil)
	return err
}

// maxFiles is how many descriptors come with a message.
const maxFiles = 2

// ErrDescriptors is a message without all the descriptors that were sent with it:
// this process has as many as it may have, and the kernel has closed the others.
var ErrDescriptors = errors.New("descriptors that were sent have not arrived: too many open files")

// receive waits for the next message. Its descriptors are the caller's, also if
// there is an error. After errMessage and ErrDescriptors, with which there is a
// message as far as it goes, there may be more messages.
func (c conn) receive() (m message, files []*os.File, err error) {
	var b [maxMessage + 1]byte
	var oob [64]byte // what does not fit in the kernel does not hand out
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

// received returns the descriptors in control messages.
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
			files = append(files, os.NewFile(uintptr(fd), "from the other end"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// withFDs calls f with the descriptors of files, which stay as they are: after
// a call of Fd they would block.
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
