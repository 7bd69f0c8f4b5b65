package sysfile

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A Reader reads files and directories that are small, many and short-lived. It
// calls the kernel directly, because package os allocates memory several times
// for each file.
//
// A call chain builds a path from parts. The last method says what to do with it:
//
//	r.Path("/sys/class/net/").Name(eth).Str("/mtu").Value()
type Reader struct {
	Root string // all paths are relative to it; "" is /

	// Open, if it is not nil, opens all files. flags are those of open(2).
	Open func(path string, flags int) (fd int, err error)

	// Renames says that a Device may have another name in the next generation.
	// Interfaces may be renamed, devices of other kinds not.
	Renames bool

	dir  int // a directory, which path is relative to
	path []byte
	buf  []byte

	generation uint64
	devices    map[string]map[string]*Device // by parent and name
	limit      int                           // see openLimit; 0 before its first call
	openCount  int                           // open descriptors of directories and files
	openFiles  int                           // of these, descriptors of files
}

// Path starts a path, which is relative to the root and begins with /.
func (r *Reader) Path(path string) *Reader {
	r.dir, r.path = atFDCWD, append(append(r.path[:0], r.Root...), path...)
	return r
}

// Str appends text to the path.
func (r *Reader) Str(s string) *Reader {
	r.path = append(r.path, s...)
	return r
}

// Name appends the name of one file or directory. If name is not a file name, such
// as "" or "../x", no file has the path: a name from an untrusted source cannot
// lead to another directory.
func (r *Reader) Name(name string) *Reader {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		name = "\x00"
	}
	return r.Str(name)
}

// Num appends a number to the path.
func (r *Reader) Num(n int32) *Reader {
	r.path = strconv.AppendInt(r.path, int64(n), 10)
	return r
}

// atFDCWD is AT_FDCWD of fcntl.h, oPath is O_PATH.
var atFDCWD = -100

const oPath = 0x200000

// openPath opens the file for reading.
func (r *Reader) openPath(flags int) (int, error) {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return -1, syscall.ENOENT
	}
	if r.Open != nil {
		return r.Open(string(r.path), flags|syscall.O_NONBLOCK)
	}
	r.path = append(r.path, 0)
	// Without O_NONBLOCK the open of a FIFO would block.
	flags |= syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NONBLOCK
	for {
		fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(r.dir), uintptr(unsafe.Pointer(&r.path[0])), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case syscall.EINTR:
		default:
			return -1, errno
		}
	}
}

// FD opens the file and returns its descriptor, which the caller must close.
func (r *Reader) FD() (fd int, err error) { return r.openPath(0) }

// Text returns the content of the file, up to max bytes. It is valid until the
// next call. If a read fails, Text returns what was read before, if anything, and
// no error.
func (r *Reader) Text(max int) ([]byte, error) { return r.text(max, false) }

// Whole is Text for a file that the kernel gives in one piece, such as /proc/PID/stat: a read
// that does not fill the buffer is the last. Files with a record for each of many, such as
// /proc/mounts, are given in pieces of a page.
func (r *Reader) Whole(max int) ([]byte, error) { return r.text(max, true) }

func (r *Reader) text(max int, whole bool) ([]byte, error) {
	fd, err := r.openPath(0)
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
		if whole && n < len(r.buf) {
			break
		}
	}
	return r.buf[:n], nil
}

// maxValue is the number of bytes that Value reads at most. Files of sysfs have a
// page.
const maxValue = 4096

// Value returns the text of a file that has one value, without white space at its
// ends, or nothing if the file cannot be read. It is valid until the next call.
func (r *Reader) Value() []byte {
	b, _ := r.value()
	return b
}

func (r *Reader) value() ([]byte, error) {
	fd, err := r.openPath(0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	return r.trim(syscall.Read(fd, r.page()))
}

// page returns the buffer for a file with one value.
func (r *Reader) page() []byte {
	r.grow(maxValue)
	return r.buf[:maxValue]
}

// trim returns the value in the n bytes that were read into the page.
func (r *Reader) trim(n int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, _, _ := bytes.Cut(r.buf[:n], []byte{0}) // a recorded page ends in NULs
	return bytes.TrimSpace(text), nil
}

// Number returns the decimal number at the start of the Value. ok is false if there
// is none.
func (r *Reader) Number() (n uint64, ok bool) {
	word, _ := Field(r.Value())
	return Uint(word)
}

// Link returns the target of a symbolic link. It is valid until the next call.
func (r *Reader) Link() ([]byte, error) {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return nil, syscall.ENOENT
	}
	dir := r.dir
	if r.Open != nil {
		fd, err := r.Open(string(r.path), oPath|syscall.O_NOFOLLOW)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		dir, r.path = fd, r.path[:0]
	}
	r.path = append(r.path, 0)
	r.grow(4096)
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&r.path[0])),
		uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return r.buf[:n], nil
}

// Exists reports whether the file or directory exists.
func (r *Reader) Exists() bool {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return false
	}
	if r.Open != nil {
		fd, err := r.Open(string(r.path), oPath)
		if err != nil {
			return false
		}
		syscall.Close(fd)
		return true
	}
	r.path = append(r.path, 0)
	_, _, errno := syscall.Syscall(syscall.SYS_FACCESSAT, uintptr(r.dir), uintptr(unsafe.Pointer(&r.path[0])), 0)
	return errno == 0
}

// IsLeaf reports whether the path is a directory that has no directories, as its number of links
// says: one, and one for . and for .. of each directory in it. Some file systems do not count
// links; then IsLeaf is false. To stat takes a tenth of the time of List for a control group.
func (r *Reader) IsLeaf() bool {
	if r.Open != nil || bytes.IndexByte(r.path, 0) >= 0 {
		return false
	}
	var st syscall.Stat_t
	err := syscall.Stat(string(r.path), &st)
	const listable = syscall.S_IFDIR | 0o555 // by all users
	return err == nil && st.Mode&(syscall.S_IFMT|0o555) == listable && st.Nlink == 2
}

// Lines calls f for each line of a file, without the newline, until f returns an
// error. f must not use the reader. A line that is longer than MaxLine is nil. The error is
// EFBIG if the file has more than max bytes.
func (r *Reader) Lines(max int, f func(line []byte) error) error {
	fd, err := r.openPath(0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	r.grow(MaxLine)
	buf := r.buf[:MaxLine]
	kept := 0     // bytes of a line whose end was not read yet
	long := false // the line is longer than buf
	for total := 0; ; {
		m, err := syscall.Read(fd, buf[kept:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if total += m; total > max {
			return syscall.EFBIG
		}
		if m <= 0 {
			if kept > 0 && !long {
				return f(buf[:kept])
			}
			return nil
		}
		b := buf[:kept+m]
		if long {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				kept = 0
				continue
			}
			b, long = b[i+1:], false
		}
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			if err := f(b[:i]); err != nil {
				return err
			}
			b = b[i+1:]
		}
		if kept = copy(buf, b); kept == len(buf) {
			if err := f(nil); err != nil {
				return err
			}
			kept, long = 0, true
		}
	}
}

// List calls f for each name in a directory except . and .., in the order of the
// directory. f must not use the reader. typ is DT_DIR, DT_REG and so on, or
// DT_UNKNOWN if the file system does not say.
func (r *Reader) List(f func(name []byte, typ byte)) error {
	return r.ListUntil(func(name []byte, typ byte) error {
		f(name, typ)
		return nil
	})
}

// ListUntil is List until f returns an error, which it returns.
func (r *Reader) ListUntil(f func(name []byte, typ byte) error) error {
	fd, err := r.openPath(syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return r.list(fd, f)
}

// CountFDs returns the number of names in a directory that is fd of a process. Since Linux 6.2 it
// is the size of the directory, which stat(2) tells also without the right to list it. Else CountFDs
// calls each for each name, until that returns an error.
func (r *Reader) CountFDs(each func() error) (n uint64, err error) {
	fd, err := r.openPath(syscall.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) == nil && st.Size > 0 && ofProc(fd) {
		return uint64(st.Size), nil
	}
	err = r.list(fd, func([]byte, byte) error {
		n++
		return each()
	})
	return n, err
}

// list calls f for each name in a directory that is open, until f returns an error.
func (r *Reader) list(fd int, f func(name []byte, typ byte) error) error {
	r.grow(32 << 10)
	for {
		n, err := syscall.Getdents(fd, r.buf)
		if err != nil || n <= 0 {
			return err
		}
		if err := eachDirent(r.buf[:n], f); err != nil {
			return err
		}
	}
}

func (r *Reader) grow(size int) {
	if len(r.buf) < size {
		r.buf = make([]byte, size)
	}
}

// eachDirent calls f for each struct linux_dirent64 (getdents(2)) in b.
func eachDirent(b []byte, f func(name []byte, typ byte) error) error {
	const head = 19 // d_ino, d_off, d_reclen, d_type
	for len(b) >= head {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < head || size > len(b) {
			return nil
		}
		name, _, _ := bytes.Cut(b[head:size], []byte{0})
		if s := string(name); s != "." && s != ".." && s != "" {
			if err := f(name, b[18]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}
