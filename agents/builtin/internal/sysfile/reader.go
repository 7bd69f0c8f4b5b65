package sysfile

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A Reader reads files and directories that are small, many and soon gone. It
// makes system calls itself because package os allocates several times for each.
//
// A path is said in parts, after which comes what to do with it:
//
//	r.Path("/sys/class/net/").Name(eth).Str("/mtu").Value()
type Reader struct {
	Root string // what all paths are below; "" is /

	// Open, if there is one, is what opens files, with the flags of open(2).
	Open func(path string, flags int) (fd int, err error)

	// Renames says that Devices may have other names in another turn, as
	// interfaces may. Those of other kinds keep theirs.
	Renames bool

	dir  int // what path is below
	path []byte
	buf  []byte

	generation uint64
	devices    map[string]map[string]*Device // by parent and name
	limit      int                           // descriptors of devices, at most; 0 if openLimit was not called
	openCount  int                           // those that there are
	openFiles  int                           // those of their files
}

// Path starts a path below the root, with a /.
func (r *Reader) Path(path string) *Reader {
	r.dir, r.path = atFDCWD, append(append(r.path[:0], r.Root...), path...)
	return r
}

// Str appends text to the path.
func (r *Reader) Str(s string) *Reader {
	r.path = append(r.path, s...)
	return r
}

// Name appends the name of one file or directory. With text that is none there
// is no such file: a name that was read somewhere leads nowhere else.
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

func (r *Reader) openPath(flags int) (int, error) {
	if bytes.IndexByte(r.path, 0) >= 0 {
		return -1, syscall.ENOENT
	}
	if r.Open != nil {
		return r.Open(string(r.path), flags|syscall.O_NONBLOCK)
	}
	r.path = append(r.path, 0)
	// Without O_NONBLOCK a FIFO would be waited for.
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

// FD returns a descriptor of the file, which the caller closes.
func (r *Reader) FD() (fd int, err error) { return r.openPath(0) }

// Text returns what the file has, up to max bytes. It is valid until the next
// call. What can be read before an error counts.
func (r *Reader) Text(max int) ([]byte, error) {
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
	}
	return r.buf[:n], nil
}

// maxValue is the largest file that Value reads, in bytes: those of sysfs have a
// page.
const maxValue = 4096

// Value returns the text of a file that has one value, without blanks around it;
// nothing if it cannot be read. It is valid until the next call.
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

// page is what files with one value are read into.
func (r *Reader) page() []byte {
	r.grow(maxValue)
	return r.buf[:maxValue]
}

// trim returns the value in what a read into the page has brought.
func (r *Reader) trim(n int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, _, _ := bytes.Cut(r.buf[:n], []byte{0}) // a page that was recorded has NULs behind it
	return bytes.TrimSpace(text), nil
}

// Number returns the decimal number that the Value starts with; ok is false if
// it does not.
func (r *Reader) Number() (n uint64, ok bool) {
	word, _ := Field(r.Value())
	return Uint(word)
}

// Link returns where a symbolic link points to. It is valid until the next call.
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

// Exists reports whether there is such a file or directory.
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

// List calls f for each name in a directory but . and .., in its order. f may
// not use the reader. Type is one of DT_DIR and so on; DT_UNKNOWN is one that
// the file system does not tell.
func (r *Reader) List(f func(name []byte, typ byte)) error {
	fd, err := r.openPath(syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	r.grow(32 << 10)
	for {
		n, err := syscall.Getdents(fd, r.buf)
		if err != nil || n <= 0 {
			return err
		}
		eachDirent(r.buf[:n], f)
	}
}

func (r *Reader) grow(size int) {
	if len(r.buf) < size {
		r.buf = make([]byte, size)
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
