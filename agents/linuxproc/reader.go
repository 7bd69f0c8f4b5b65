package linuxproc

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"syscall"
	"unsafe"
)

// maxFile is the most that is read of a file, in bytes: the rest of it is left.
// /proc/PID/maps has megabytes, environ what the process was given.
const maxFile = 1 << 20

// A reader reads files and directories that are small, many and soon gone. It
// makes system calls itself because package os allocates several times for each.
type reader struct {
	root string
	path []byte
	buf  []byte
}

// open starts a path below the root.
func (r *reader) open(path string) *reader {
	r.path = append(append(r.path[:0], r.root...), path...)
	return r
}

func (r *reader) str(s string) *reader {
	r.path = append(r.path, s...)
	return r
}

func (r *reader) num(n int32) *reader {
	r.path = strconv.AppendInt(r.path, int64(n), 10)
	return r
}

// atFDCWD is AT_FDCWD of fcntl.h.
var atFDCWD = -100

func (r *reader) fd(flags int) (int, error) {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return -1, syscall.ENOENT
	}
	r.path = append(r.path, 0)
	// Without O_NONBLOCK a FIFO would be waited for.
	flags |= syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NONBLOCK
	for {
		fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(atFDCWD), uintptr(unsafe.Pointer(&r.path[0])), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case syscall.EINTR:
		default:
			return -1, errno
		}
	}
}

// text returns what the file has, up to max bytes. It is valid until the next
// call. What can be read before an error counts.
func (r *reader) text(max int) ([]byte, error) {
	fd, err := r.fd(0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	n := 0
	for n < max {
		if n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf)+4096)...)
		}
		m, err := syscall.Read(fd, r.buf[n:min(len(r.buf), max)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil && n == 0:
			return nil, err
		case err != nil, m <= 0:
			return r.buf[:n], nil
		}
		n += m
	}
	return r.buf[:n], nil
}

// link returns where a symbolic link points to. It is valid until the next call.
func (r *reader) link() ([]byte, error) {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return nil, syscall.ENOENT
	}
	r.path = append(r.path, 0)
	if len(r.buf) < 4096 {
		r.buf = make([]byte, 4096)
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(atFDCWD), uintptr(unsafe.Pointer(&r.path[0])),
		uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return r.buf[:n], nil
}

// exists reports whether there is such a file or directory.
func (r *reader) exists() bool {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return false
	}
	r.path = append(r.path, 0)
	_, _, errno := syscall.Syscall(syscall.SYS_FACCESSAT, uintptr(atFDCWD), uintptr(unsafe.Pointer(&r.path[0])), 0)
	return errno == 0
}

// list calls f for each name in a directory but . and .., in its order. f may
// not use the reader. Type is one of DT_DIR and so on; DT_UNKNOWN is one that
// the file system does not tell.
func (r *reader) list(f func(name []byte, typ byte)) error {
	fd, err := r.fd(syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if len(r.buf) < 32<<10 {
		r.buf = make([]byte, 32<<10)
	}
	for {
		n, err := syscall.Getdents(fd, r.buf)
		if err != nil || n <= 0 {
			return err
		}
		eachDirent(r.buf[:n], f)
	}
}

// eachDirent goes through struct linux_dirent64 (getdents(2)).
func eachDirent(b []byte, f func(name []byte, typ byte)) {
	const head = 19 // d_ino, d_off, d_reclen, d_type
	for len(b) >= head {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < head || size > len(b) {
			return
		}
		name, _, _ := bytes.Cut(b[head:size], []byte{0})
		if s := string(name); s != "." && s != ".." && s != "" {
			f(name, b[18])
		}
		b = b[size:]
	}
}
