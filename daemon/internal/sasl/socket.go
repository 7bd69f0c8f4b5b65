package sasl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// A socket is an end of a pair of SOCK_SEQPACKET sockets. One goroutine may read while
// others write.
type socket struct{ *net.UnixConn }

// newPair returns the two ends of a pair. The second is for another process.
func newPair() (socket, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return socket{}, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pmcd"), os.NewFile(uintptr(fds[1]), "SASL helper")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return socket{}, nil, err
	}
	return socket{c.(*net.UnixConn)}, theirs, nil
}

// read reads a packet, into b if it fits. It accepts no descriptors.
func (s socket) read(b []byte) ([]byte, error) {
	n, _, flags, _, err := s.ReadMsgUnix(b[:maxPacket], nil)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	case flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0:
		return nil, errMessage
	}
	return b[:n], nil
}

// write writes a packet, with a descriptor if f is not nil. It takes no longer than limit.
func (s socket) write(limit time.Duration, kind byte, data []byte, f *os.File) error {
	b := append(make([]byte, 0, 1+len(data)), kind)
	b = append(b, data...)
	defer clear(b) // data may have a password
	s.SetWriteDeadline(time.Now().Add(limit))
	if f == nil {
		_, err := s.Write(b)
		return err
	}
	raw, err := f.SyscallConn() // not Fd, which changes the file
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		_, _, inner = s.WriteMsgUnix(b, syscall.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, inner)
}

// id8 is an id as it is in messages.
func id8(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }
