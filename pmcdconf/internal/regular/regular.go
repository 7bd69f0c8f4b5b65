// Package regular reads configuration files that must be regular files.
package regular

import (
	"errors"
	"io"
	"os"
	"syscall"
)

var (
	errNotRegular = errors.New("not a regular file")
	errTooLong    = errors.New("file too long")
)

// ReadFile returns the content of a regular file of at most limit bytes. It has no
// context: it does not block, unless the file system does.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &os.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return b, err
}

// open opens a regular file. O_NONBLOCK is for a FIFO, whose open would wait.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
