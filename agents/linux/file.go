package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxFile is the largest file that is read, in bytes. /proc/stat has some
// kilobytes, /proc/cpuinfo a megabyte on the largest machines.
const maxFile = 16 << 20

// A file is one that is read again and again. It stays open if it is of /proc,
// where a read at offset 0 has the kernel write it anew.
type file struct {
	path string
	f    *os.File
	buf  []byte
}

// read returns the present text, nothing if there is no such file. It is valid
// until the next read.
func (f *file) read() ([]byte, error) {
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
func (f *file) again() (_ []byte, err error) {
	keep := true
	if f.f == nil {
		// Without O_NONBLOCK a FIFO would be waited for.
		if f.f, err = os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
			return nil, err
		}
		st, err := f.f.Stat()
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", f.path)
		}
		if err != nil {
			f.close()
			return nil, err
		}
		// Files of /proc have no size. One that has is a recorded one, which
		// the next one takes the place of.
		keep = st.Size() == 0
	}
	n := 0
	for err == nil {
		if n == len(f.buf) {
			if n >= maxFile {
				err = fmt.Errorf("%s: %w", f.path, syscall.EFBIG)
				break
			}
			f.buf = append(f.buf, make([]byte, max(n, 4096))...)
		}
		var m int
		m, err = f.f.ReadAt(f.buf[n:], int64(n))
		n += m
	}
	if err == io.EOF {
		err = nil
	}
	if err != nil || !keep {
		f.close()
	}
	if err != nil {
		return nil, err
	}
	return f.buf[:n], nil
}

func (f *file) close() {
	if f.f != nil {
		f.f.Close()
		f.f = nil
	}
}
