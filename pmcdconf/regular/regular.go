// Package regular opens files for reading, and directories, without waiting for others. What
// is not a regular file or a directory is an error: a FIFO, whose open waits for a writer, or
// a device, whose content may have no end. All files that pmcd reads are opened by this
// package, except those that TestOpens in cmd/pmcd lists, with the reason.
//
// The calls have no context: they do not block, unless the file system does.
//
// Package regular serves the programs of this module, and may change in any release.
package regular

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// ErrTooLong matches the error of ReadFile for a file with more bytes than its limit.
var ErrTooLong = errors.New("file too long")

var errNotRegular = errors.New("not a regular file")

// ReadFile returns the content of a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLong, limit)}
	}
	return b, err
}

// Open opens a regular file for reading. The null device is an empty file.
func Open(path string) (*os.File, error) {
	f, err := open(path, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() && !isNull(st) {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isNull(st fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(st, null)
}

// OpenDir opens a directory.
func OpenDir(path string) (*os.File, error) { return open(path, syscall.O_DIRECTORY) }

// ReadDir returns the entries of a directory, sorted by name, as os.ReadDir does.
func ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, err
}

// open opens a file. Without O_NONBLOCK the open of a FIFO waits, and so does that of a file
// with a lease. Without O_NOCTTY a terminal could become that of this process.
func open(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flag, 0)
}
