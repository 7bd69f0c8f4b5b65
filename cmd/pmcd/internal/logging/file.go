package logging

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/logfile"
	"go.uber.org/zap/zapcore"
)

// A File is where messages go, those of agents included.
type File struct {
	Output *os.File
	Opened bool   // by Open, and not what this process was started with
	Path   string // as -l has it
	format string
	queue  *queue
	// Err is why messages do not go to Path; nil if they do.
	Err error
}

// Open makes path the place for messages: the standard output and error
// output of this process, and so of its agents, go there. If path cannot be
// opened, or is "-", messages stay where they were. In the first case stderr is told.
//
// What cannot be written to path later, as on a full disk, goes to the standard error output
// that was there, or to the journal. In the background (foreground is false) only the journal
// is left: what waits for the end of that output must not wait for pmcd.
func Open(path, format string, foreground bool, stderr io.Writer) *File {
	l := &File{Output: os.Stderr, Path: path, format: format}
	var spare zapcore.Core
	if path != "-" {
		spare = newSpare(format, foreground)
		if l.Err = redirect(path); l.Err != nil {
			fmt.Fprintf(stderr, "pmcd: %v\n", l.Err)
		}
		l.Opened = l.Err == nil
	}
	l.queue = newQueue(l.newCore())
	if l.Opened {
		l.queue.spare = spare
	}
	if l.Opened {
		l.plain("log_started", logfile.Header("pmcd"))
	}
	return l
}

// redirect makes the file at path the standard output and error output of this process.
func redirect(path string) error {
	const then = "messages go to the standard error output; fix that and restart pmcd"
	f, err := logfile.Open(path)
	if err != nil {
		return fmt.Errorf("cannot open log %q for writing : %w; %s", path, err, then)
	}
	defer f.Close()
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("cannot redirect output to log %q: dup3: %w; %s", path, err, then)
		}
	}
	return nil
}

// Core returns the core of loggers that write to the log: in the format of
// --log-format, or for the journal if the standard error output leads there. A log
// that is not read does not stop those that log.
func (l *File) Core() zapcore.Core { return l.queue }

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

// newSpare returns the core for what cannot be written to the file that is opened next.
func newSpare(format string, foreground bool) zapcore.Core {
	journal := StderrIsJournal()
	if foreground || journal {
		if fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 2, syscall.F_DUPFD_CLOEXEC, 3); errno == 0 {
			stderr := os.NewFile(fd, "stderr")
			if !journal {
				return NewCore(stderr, format)
			}
			return newJournalCore(stderr, journalSocket)
		}
	}
	return newJournalCore(io.Discard, journalSocket)
}

// Problems returns why the last entry is not in the log, if it is not. Any goroutine may call it.
func (l *File) Problems() []string {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if l.queue.err == nil {
		return nil
	}
	name := "the standard error output"
	if l.Opened {
		name = l.Path
	}
	return []string{fmt.Sprintf("cannot write to the log %s: %v; %s; free space or correct what keeps pmcd from writing there: the next entry that is written ends this", name, l.queue.err, l.queue.instead())}
}

// OnChange has f called when the result of Problems has changed, except in its text.
func (l *File) OnChange(f func()) {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.queue.changed = f
}

// plain writes lines without time and level.
func (l *File) plain(event, lines string) {
	e := zapcore.Entry{Time: time.Now(), LoggerName: bareName, Message: strings.TrimSuffix(lines, "\n")} // Write adds one
	l.queue.Write(e, []zapcore.Field{stringField(eventKey, event)})
}

// finishTime is how long the end of pmcd waits for a log that is not read.
const finishTime = time.Second

// Finish writes the last line.
func (l *File) Finish() {
	if l.Opened {
		l.plain("log_finished", logfile.Trailer())
	}
	l.queue.flush(finishTime)
}
