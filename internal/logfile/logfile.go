// Package logfile opens the log files of pmcd and of agents, as libpcp does for PCP's
// programs (pmOpenLog(3)). It is more careful than libpcp with links, devices and FIFOs,
// because root opens files in directories of PCP's user.
package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
)

// Open opens path for messages. A file that was there gets the suffix .prev, and so
// does a symbolic link: root must not write to a file that another user has linked.
// A link that leads to the null device, or to the output of this process
// (/dev/stderr), is followed; one to anything else that is not a file is an error. A
// device or a FIFO is opened as it is, because /dev/null is for all programs. A FIFO
// without a reader is an error, so Open does not wait for one. For root, it is an error if
// another user can have linked the directory, or one above it: see package safepath.
//
// The error does not have the path.
func Open(path string) (*os.File, error) {
	f, err := open(path)
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	return f, err
}

func open(path string) (*os.File, error) {
	d, path, err := safepath.OpenParent(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode().Type() == fs.ModeSymlink {
		if f, err := followLink(path); f != nil || err != nil {
			return f, err
		}
	} else if err == nil && !fi.Mode().IsRegular() {
		return openSpecial(path, fi.Mode())
	}
	if err == nil {
		os.Rename(path, path+".prev") // if that fails, creating it does
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
}

// followLink opens what a link leads to if this process has that as its output
// anyway (/dev/stderr), or if it is the null device. It returns nil for a link
// to a file, which is moved like a file: others than root may make links in the
// directory of the log.
func followLink(path string) (*os.File, error) {
	target, err := os.Stat(path)
	if err != nil {
		return nil, nil // it leads nowhere
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if fi, err := f.Stat(); err == nil && os.SameFile(fi, target) {
			fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD_CLOEXEC, 3)
			if errno != 0 {
				return nil, errno
			}
			return os.NewFile(fd, path), nil
		}
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(null, target) {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if !target.Mode().IsRegular() {
		return nil, errors.New("a link to what is not a file")
	}
	return nil, nil
}

// openSpecial opens a FIFO that has a reader, or a character device.
func openSpecial(path string, mode fs.FileMode) (*os.File, error) {
	if mode&(fs.ModeNamedPipe|fs.ModeCharDevice) == 0 {
		return nil, errors.New("neither a file nor a FIFO nor a device for characters")
	}
	// Without a reader, opening a FIFO would wait for one.
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_NOFOLLOW|
		syscall.O_NOCTTY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Header returns the first lines of the log of the program name, for PCP's scripts.
func Header(name string) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("Log for %s on %s started %s\n\n", name, host, stamp())
}

// Trailer returns the last lines of the log.
func Trailer() string { return fmt.Sprintf("\nLog finished %s\n", stamp()) }

// stamp returns the time as ctime(3) does.
func stamp() string { return time.Now().Format("Mon Jan _2 15:04:05 2006") }
