package linux

import (
	"bytes"
	"strings"
	"syscall"
	"unsafe"
)

// A sysReader reads files of /sys, which have one value each and are many. It
// makes system calls itself because package os allocates several times for each
// file, and a name has to be looked up each time: eth0 may be another device
// by now.
type sysReader struct {
	root string
	path []byte
	buf  [4096]byte // no file of /sys is larger
}

// read returns the text of a file without blanks around it, nil if it cannot be
// read. The path is in parts, below the root. It is valid until the next read.
func (r *sysReader) read(path ...string) []byte {
	if !r.join(path) {
		return nil
	}
	dir := atFDCWD
	// Without O_NONBLOCK a FIFO would be waited for.
	const flags = syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NONBLOCK
	fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&r.path[0])), flags, 0, 0, 0)
	if errno != 0 {
		return nil
	}
	n, err := syscall.Read(int(fd), r.buf[:])
	syscall.Close(int(fd))
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(r.buf[:n])
}

// exists reports whether there is such a file or directory.
func (r *sysReader) exists(path ...string) bool {
	if !r.join(path) {
		return false
	}
	dir := atFDCWD
	_, _, errno := syscall.Syscall(syscall.SYS_FACCESSAT, uintptr(dir), uintptr(unsafe.Pointer(&r.path[0])), 0)
	return errno == 0
}

// number returns the decimal number that a file starts with, ok is false if it
// does not.
func (r *sysReader) number(path ...string) (n uint64, ok bool) {
	f, _ := field(r.read(path...))
	return uintOf(f)
}

// join makes a C string of the path. It reports false if that is not one, or
// if a part is no name.
func (r *sysReader) join(path []string) bool {
	p := append(r.path[:0], r.root...)
	for _, part := range path {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "/") {
			return false
		}
		p = append(append(p, '/'), part...)
	}
	r.path = append(p, 0)
	return bytes.IndexByte(r.path, 0) == len(r.path)-1
}

// atFDCWD is AT_FDCWD of fcntl.h.
var atFDCWD = -100
