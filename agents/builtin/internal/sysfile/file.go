package sysfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/agents/rawio"
)

// MaxFile is the largest file that File.Read reads, in bytes. /proc/stat has some
// kilobytes, /proc/cpuinfo a megabyte on the largest machines.
const MaxFile = 16 << 20

// A File is one that is read again and again. It stays open if it is of /proc,
// where a read at offset 0 has the kernel write it anew.
type File struct {
	path        string
	fd          int // -1 if it is not open
	neverBlocks bool
	maxPiece    int
	now         bool // neverBlocks, and rawio.Pread is for it
	buf         []byte
}

// NewFile returns the file with a path. It is opened when it is read.
func NewFile(path string) *File { return &File{path: path, fd: -1, maxPiece: pageSize} }

// NeverBlocks says that f is a file of /proc that the kernel writes from memory,
// without a lock that anybody holds for long, and returns it. The scheduler is
// not told when it is read: sysmon, a thread which looks for system calls that
// do not return, would be woken up for nothing, and cost more than a short file.
//
// The kernel writes the text in pieces, of which it hands out whole ones. maxPiece is
// the size of the largest, in bytes; 0 if there is but one, by single_open() in
// fs/seq_file.c.
func (f *File) NeverBlocks(maxPiece int) *File {
	f.neverBlocks, f.maxPiece = true, maxPiece
	return f
}

// pageSize is the least that the kernel has to write the pieces of a file into:
// a read ends where the next one has no room.
const pageSize = 4096

// Read returns the present text, nothing if there is no such file. It is valid
// until the next read.
func (f *File) Read() ([]byte, error) {
	wasOpen := f.fd >= 0
	b, err := f.readAll()
	if err != nil && wasOpen { // what it was opened for has gone, perhaps not its name
		b, err = f.readAll()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// readAll reads the file that is open, or opens it.
func (f *File) readAll() (_ []byte, err error) {
	keep, err := f.open()
	n := 0
	for err == nil {
		if n == len(f.buf) {
			if n >= MaxFile {
				err = fmt.Errorf("%s: %w", f.path, syscall.EFBIG)
				break
			}
			f.buf = append(f.buf, make([]byte, max(n, pageSize))...)
		}
		var m int
		m, err = f.pread(f.buf[n:], n)
		n += m
		if f.now && n == m && n < len(f.buf) && (f.maxPiece == 0 || n+f.maxPiece < pageSize) {
			break // there was room for another piece: this was the last
		}
	}
	if err = f.endRead(keep, err); err != nil {
		return nil, err
	}
	return f.buf[:n], nil
}

// pread reads at an offset. The error at the end is io.EOF.
func (f *File) pread(b []byte, off int) (n int, err error) {
	for {
		if f.now {
			n, err = rawio.Pread(uintptr(f.fd), b, int64(off))
		} else {
			n, err = syscall.Pread(f.fd, b, int64(off))
		}
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.path, Err: err}
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Lines calls line for each line of the present text, which may be of any size,
// after begin. It begins anew if what was opened has gone.
func (f *File) Lines(begin func(), line func([]byte)) error {
	wasOpen := f.fd >= 0
	begin()
	err := f.eachLine(line)
	if err != nil && wasOpen {
		begin()
		err = f.eachLine(line)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// MaxLine is the longest line that File.Lines takes, in bytes. Those of sockets have
// less than 300.
const MaxLine = 1 << 15

func (f *File) eachLine(line func([]byte)) error {
	keep, err := f.open()
	if f.buf == nil {
		f.buf = make([]byte, MaxLine)
	}
	at := 0
	n := 0 // bytes of a line whose end was not read yet
	for err == nil {
		if n == len(f.buf) {
			err = fmt.Errorf("%s: %w", f.path, syscall.EFBIG)
			break
		}
		var m int
		m, err = f.pread(f.buf[n:], at)
		at += m
		b := f.buf[:n+m]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				break
			}
			line(b[:i])
			b = b[i+1:]
		}
		n = copy(f.buf, b)
	}
	if err == io.EOF && n > 0 {
		line(f.buf[:n])
	}
	return f.endRead(keep, err)
}

// open opens the file, unless it is open; keep is whether it may stay open.
func (f *File) open() (keep bool, err error) {
	if f.fd >= 0 {
		return true, nil
	}
	for {
		// Without O_NONBLOCK a FIFO would be waited for.
		f.fd, err = syscall.Open(f.path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.fd = -1
		return false, &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	var st syscall.Stat_t
	err = syscall.Fstat(f.fd, &st)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err != nil {
		f.Close()
		return false, err
	}
	f.now = f.neverBlocks && strconv.IntSize == 64 && ofProc(f.fd)
	// Files of /proc have no size. One that has is a recorded one, which the
	// next one takes the place of.
	return st.Size == 0, nil
}

// ofProc reports whether a file is one of the kernel's /proc: a container may have
// one of a program's in its place, which may let it wait.
func ofProc(fd int) bool {
	const procMagic = 0x9fa0 // PROC_SUPER_MAGIC in linux/magic.h
	var st syscall.Statfs_t
	return syscall.Fstatfs(fd, &st) == nil && st.Type == procMagic
}

// endRead ends a read.
func (f *File) endRead(keep bool, err error) error {
	if err == io.EOF {
		err = nil
	}
	if err != nil || !keep {
		f.Close()
	}
	return err
}

// Close closes the file, which another read opens again.
func (f *File) Close() {
	if f.fd >= 0 {
		syscall.Close(f.fd)
		f.fd = -1
	}
}
