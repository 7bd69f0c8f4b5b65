// Package pidfile reads small files in which processes say what they are, and looks whether the
// processes live. Other users may be able to write to the directories of these files, so what
// is there is not trusted: symbolic links are not followed, and only small regular files are read.
package pidfile

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Names returns the names of at most max files in a directory, in no order.
func Names(dir string, max int) ([]string, error) {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, _ := d.Readdirnames(max) // after an error there are fewer names
	return names, nil
}

// Parse parses s as a pid; 0 if it is not one.
func Parse(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0
	}
	return int32(n)
}

// Alive reports whether there is a process with that pid.
func Alive(pid int32) bool {
	err := syscall.Kill(int(pid), 0)
	return err == nil || err == syscall.EPERM
}

// Read reads a regular file that is smaller than buf into buf, and returns that part of buf.
func Read(path string, buf []byte) ([]byte, error) {
	// Without O_NONBLOCK the open of a FIFO would block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() >= int64(len(buf)) {
		return nil, notSmallFile(path, buf)
	}
	n, err := io.ReadFull(f, buf)
	switch {
	case err == nil: // the file has grown
		return nil, notSmallFile(path, buf)
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	return buf[:n], nil
}

func notSmallFile(path string, buf []byte) error {
	return fmt.Errorf("%s: not a regular file of less than %d bytes", path, len(buf))
}
