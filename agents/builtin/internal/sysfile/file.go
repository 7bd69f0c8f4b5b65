package sysfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/internal/rawio"
)

// MaxFile is the size of the largest file that File.Read reads, in bytes.
// /proc/stat has some kilobytes, /proc/cpuinfo a megabyte on the largest machines.
const MaxFile = 16 << 20

// A File is a file that is read repeatedly. A file of /proc stays open: the kernel
// writes its text anew for each read at offset 0.
type File struct {
	path        string
	fd          int // -1 if it is not open
	neverBlocks bool
	maxPiece    int
	proc        bool // the open file is of /proc
	raw         bool // reads are by rawio.Pread: neverBlocks, and of /proc on a 64-bit machine
	buf         []byte
}

// NewFile returns the File with a path. The first read opens it.
func NewFile(path string) *File { return &File{path: path, fd: -1, maxPiece: pageSize} }

// NeverBlocks marks f as a file of /proc that the kernel writes from memory, and
// without a lock that is ever held for long. It returns f. Reads of such a file
// bypass Go's scheduler. Otherwise each read would wake up sysmon, the thread of
// the runtime that looks for system calls that do not return, which costs more
// than the read of a short file.
//
// The kernel writes the text in pieces, and a read returns whole pieces. maxPiece
// is the size of the largest, in bytes; 0 if there is only one, by single_open()
// in fs/seq_file.c.
func (f *File) NeverBlocks(maxPiece int) *File {
	f.neverBlocks, f.maxPiece = true, maxPiece
	return f
}

// pageSize is the smallest buffer into which the kernel writes the pieces of a
// file. A read ends before the first piece that does not fit into it.
const pageSize = 4096

// Read returns the current text, or nil if the file is absent, see Kernel. It is valid
// until the next read.
func (f *File) Read() ([]byte, error) {
	wasOpen := f.fd >= 0
	b, err := f.readAll()
	if err != nil && wasOpen { // the open file was removed; there may be a new one
		b, err = f.readAll()
	}
	if Kernel.Absent(err) {
		return nil, nil
	}
	return b, err
}

// Unchanged reports whether the text is the same as at the last read. It is for files of
// /proc that poll(2) can be used with, as proc_pid_mounts(5). It reports false if this is
// not known.
func (f *File) Unchanged() bool {
	if f.fd < 0 || !f.proc {
		return false
	}
	const pollPri = 2 // POLLPRI in poll.h
	events, err := rawio.Poll(uintptr(f.fd), pollPri)
	return err == nil && events == 0
}

// readAll reads the whole file, and opens it if necessary.
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
		if f.raw && n == m && n < len(f.buf) && (f.maxPiece == 0 || n+f.maxPiece < pageSize) {
			break // another piece would have fit: this was the last
		}
	}
	if err = f.endRead(keep, err); err != nil {
		return nil, err
	}
	return f.buf[:n], nil
}

// pread reads at an offset. At the end of the file the error is io.EOF.
func (f *File) pread(b []byte, off int) (n int, err error) {
	for {
		if f.raw {
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

// Lines calls begin, and then line for each line of the current text, which may
// have any size, until line returns an error. If the open file was removed, or after
// another error, Lines starts again, with begin.
func (f *File) Lines(begin func(), line func([]byte) error) error {
	wasOpen := f.fd >= 0
	begin()
	err := f.eachLine(line)
	if err != nil && wasOpen {
		begin()
		err = f.eachLine(line)
	}
	if Kernel.Absent(err) {
		return nil
	}
	return err
}

// MaxLine is the length of the longest line that File.Lines reads, in bytes. Lines
// of sockets have less than 300.
const MaxLine = 1 << 15

func (f *File) eachLine(line func([]byte) error) error {
	keep, err := f.open()
	if f.buf == nil {
		f.buf = make([]byte, MaxLine)
	}
	at := 0
	n := 0 // bytes in f.buf, of a line whose end was not read yet
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
			if lerr := line(b[:i]); lerr != nil {
				return f.endRead(keep, lerr)
			}
			b = b[i+1:]
		}
		n = copy(f.buf, b)
	}
	if err == io.EOF && n > 0 {
		if lerr := line(f.buf[:n]); lerr != nil {
			err = lerr
		}
	}
	return f.endRead(keep, err)
}

// open opens the file, unless it is open. keep says whether it may stay open.
func (f *File) open() (keep bool, err error) {
	if f.fd >= 0 {
		return true, nil
	}
	for {
		// Without O_NONBLOCK the open of a FIFO would block.
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
	// Files of /proc have the size 0. A file with another size is a recorded one,
	// and another file may replace it.
	f.proc = st.Size == 0 && ofProc(f.fd)
	f.raw = f.neverBlocks && strconv.IntSize == 64 && f.proc
	return st.Size == 0, nil
}

// ofProc reports whether the file system of a file is the kernel's /proc. In a
// container another file system may be mounted in its place, by a program such as
// lxcfs, and block.
func ofProc(fd int) bool {
	const procMagic = 0x9fa0 // PROC_SUPER_MAGIC in linux/magic.h
	var st syscall.Statfs_t
	return syscall.Fstatfs(fd, &st) == nil && st.Type == procMagic
}

// endRead closes the file after an error, or if it may not stay open. It returns
// the error, but not io.EOF.
func (f *File) endRead(keep bool, err error) error {
	if err == io.EOF {
		err = nil
	}
	if err != nil || !keep {
		f.Close()
	}
	return err
}

// Close closes the file. The next read opens it again.
func (f *File) Close() {
	if f.fd >= 0 {
		syscall.Close(f.fd)
		f.fd = -1
	}
}
