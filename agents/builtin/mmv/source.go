package mmv

import (
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// A source is a file that is open to be read. Its memory is used again for the next file.
type source struct {
	fd   int
	id   fileID
	size int64
	// entries and strings are what was read last for values, and for texts.
	entries, strings window
}

// A fileID identifies a file while its descriptor, or its name, exists.
type fileID struct{ dev, ino uint64 }

// A window is a part of a file.
type window struct {
	b   []byte
	off int64
	mem [4096]byte
}

var (
	errNotRegular = errors.New("it is not a regular file")
	errShort      = errors.New("it is shorter than it was")
	errOffset     = errors.New("an offset is not in the file")
)

// open opens a file. With O_NONBLOCK, a FIFO that has taken the place of the file does
// not block, nor does a lease.
func (s *source) open(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	var st syscall.Stat_t
	err = syscall.Fstat(fd, &st)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		syscall.Close(fd)
		return err
	}
	s.fd, s.size = fd, st.Size
	s.id = fileID{uint64(st.Dev), st.Ino}
	s.entries.b, s.strings.b = nil, nil
	return nil
}

func (s *source) close() { syscall.Close(s.fd) }

// read fills b from an offset.
func (s *source) read(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := syscall.Pread(s.fd, b, off)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return errShort
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// at returns n bytes of the file, at most 4096, which are valid until the next call for w. The
// error is errOffset if they were not in the file when it was opened.
func (s *source) at(w *window, off int64, n int) ([]byte, error) {
	if off < 0 || off > s.size-int64(n) {
		return nil, errOffset
	}
	if i := off - w.off; i < 0 || i > int64(len(w.b)-n) {
		w.off, w.b = off, nil
		b := w.mem[:min(int64(len(w.mem)), s.size-off)]
		if err := s.read(b, off); err != nil {
			return nil, err
		}
		w.b = b
	}
	i := off - w.off
	return w.b[i : i+int64(n)], nil
}

// header reads the header.
func (s *source) header() (h [mmvformat.HeaderSize]byte, err error) {
	err = s.read(h[:], 0)
	return h, err
}

// transient reports whether err says nothing about the file.
func transient(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// native is the byte order of files.
var native = binary.NativeEndian

// decodeHeader decodes the 40 bytes of a header.
func decodeHeader(b []byte) (h mmvformat.Header) {
	copy(h.Magic[:], b)
	h.Version = int32(native.Uint32(b[4:]))
	h.Generation1, h.Generation2 = native.Uint64(b[8:]), native.Uint64(b[16:])
	h.Sections, h.Flags = int32(native.Uint32(b[24:])), native.Uint32(b[28:])
	h.Process, h.Cluster = int32(native.Uint32(b[32:])), int32(native.Uint32(b[36:]))
	return h
}
