package logging

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// A File is where messages go, those of agents included.
type File struct {
	Output *os.File
	Opened bool   // by Open, and not what this process was started with
	Path   string // as -l has it
	format string
	core   zapcore.Core // set by Core
}

// Open makes path the place for messages: the standard output and error
// output of this process, and so of its agents, go there. If path cannot be
// opened, or is "-", messages stay where they were.
func Open(path, format string, stderr io.Writer) *File {
	l := &File{Output: os.Stderr, Path: path, format: format}
	if path == "-" {
		return l
	}
	f, err := createLog(path)
	if err != nil {
		fmt.Fprintf(stderr, "pmcd: cannot open log %q for writing : %v\n", path, err)
		return l
	}
	defer f.Close()
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			fmt.Fprintf(stderr, "pmcd: cannot redirect output to log %q: %v\n", path, err)
			return l
		}
	}
	l.Opened = true
	host, _ := os.Hostname()
	l.plain(fmt.Sprintf("Log for pmcd on %s started %s\n", host, stamp(time.Now())))
	return l
}

// Core returns the core of loggers that write to the log: in the format of
// --log-format, or for the journal if the standard error output leads there.
func (l *File) Core() zapcore.Core {
	if l.core == nil {
		l.core = l.newCore()
	}
	return l.core
}

func (l *File) newCore() zapcore.Core {
	if l.Path == "-" && l.format != "json" && StderrIsJournal() {
		socket := journalSocket
		if fi, err := l.Output.Stat(); err != nil || fi.Mode().Type() != fs.ModeSocket {
			socket = "" // a test's file
		}
		return newJournalCore(l.Output, socket)
	}
	return NewCore(l.Output, l.format)
}

// plain writes a line without time and level.
func (l *File) plain(text string) {
	NewCore(l.Output, l.format).Write(zapcore.Entry{Time: time.Now(), LoggerName: bareName, Message: text}, nil)
}

// Finish writes the last line.
func (l *File) Finish() {
	if l.Opened {
		l.plain("\nLog finished " + stamp(time.Now()))
	}
}

// stamp returns a time as C pmcd writes it at the start and at the end of the log.
func stamp(t time.Time) string { return t.Format("Mon Jan _2 15:04:05 2006") }

// createLog opens path for messages. A file that was there gets the suffix
// .prev. A device or a FIFO is written to, and neither moved nor replaced:
// /dev/null is for all programs.
func createLog(path string) (*os.File, error) {
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
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), path), nil
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
