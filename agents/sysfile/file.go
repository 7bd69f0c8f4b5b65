package sysfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxFile is the largest file that File.Read reads, in bytes. /proc/stat has some
// kilobytes, /proc/cpuinfo a megabyte on the largest machines.
const MaxFile = 16 << 20

// A File is one that is read again and again. It stays open if it is of /proc,
// where a read at offset 0 has the kernel write it anew.
type File struct {
	path string
	f    *os.File
	buf  []byte
}

// NewFile returns the file with a path. It is opened when it is read.
func NewFile(path string) *File { return &File{path: path} }

// Read returns the present text, nothing if there is no such file. It is valid
// until the next read.
func (f *File) Read() ([]byte, error) {
	kept := f.f != nil
	b, err := f.again()
	if err != nil && kept { // what it was opened for has gone, perhaps not its name
		b, err = f.again()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// again reads the file that is open, or opens it.
func (f *File) again() (_ []byte, err error) {
	keep, err := f.open()
	n := 0
	for err == nil {
		if n == len(f.buf) {
			if n >= MaxFile {
				err = fmt.Errorf("%s: %w", f.path, syscall.EFBIG)
				break
			}
			f.buf = append(f.buf, make([]byte, max(n, 4096))...)
		}
		var m int
		m, err = f.f.ReadAt(f.buf[n:], int64(n))
		n += m
	}
	if err = f.done(keep, err); err != nil {
		return nil, err
	}
	return f.buf[:n], nil
}

// Lines calls line for each line of the present text, which may be of any size,
// after begin. It begins anew if what was opened has gone.
func (f *File) Lines(begin func(), line func([]byte)) error {
	kept := f.f != nil
	begin()
	err := f.eachLine(line)
	if err != nil && kept {
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
	var at int64
	n := 0 // bytes of a line whose end was not read yet
	for err == nil {
		if n == len(f.buf) {
			err = fmt.Errorf("%s: %w", f.path, syscall.EFBIG)
			break
		}
		var m int
		m, err = f.f.ReadAt(f.buf[n:], at)
		at += int64(m)
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
	return f.done(keep, err)
}

// open opens the file, unless it is open; keep is whether it may stay open.
func (f *File) open() (keep bool, err error) {
	if f.f != nil {
		return true, nil
	}
	// Without O_NONBLOCK a FIFO would be waited for.
	if f.f, err = os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return false, err
	}
	st, err := f.f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err != nil {
		f.Close()
		return false, err
	}
	// Files of /proc have no size. One that has is a recorded one, which the
	// next one takes the place of.
	return st.Size() == 0, nil
}

// done ends a read.
func (f *File) done(keep bool, err error) error {
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
	if f.f != nil {
		f.f.Close()
		f.f = nil
	}
}
