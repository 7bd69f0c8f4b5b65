package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
)

// A logFile is where messages go, those of agents included.
type logFile struct {
	file   *os.File
	own    bool // opened by us, and not what we were given
	format string
}

// openLog makes path the place for messages: the standard output and error
// output of this process, and so of its agents, go there. If path cannot be
// opened, or is "-", messages stay where they were.
func openLog(path, format string, stderr io.Writer) *logFile {
	l := &logFile{file: os.Stderr, format: format}
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
	l.own = true
	host, _ := os.Hostname()
	l.plain(fmt.Sprintf("Log for pmcd on %s started %s\n", host, stamp(time.Now())))
	return l
}

// plain writes a line without time and level.
func (l *logFile) plain(text string) {
	newLogCore(l.file, l.format).Write(zapcore.Entry{Time: time.Now(), LoggerName: "plain", Message: text}, nil)
}

// finish writes the last line.
func (l *logFile) finish() {
	if l.own {
		l.plain("\nLog finished " + stamp(time.Now()))
	}
}

// A logCore writes entries in the format of pmcd.log:
//
//	[Sat Nov 21 13:00:00] pmcd(4321) Info: text
//
// Entries of a logger named "plain" are the text alone (pmcd(1), FILES).
type logCore struct {
	zapcore.LevelEnabler
	w zapcore.WriteSyncer
}

// newLogCore returns a core that writes to w, in one of the formats of
// --log-format.
func newLogCore(w io.Writer, format string) zapcore.Core {
	if format == "json" {
		return newJSONCore(w)
	}
	return &logCore{LevelEnabler: zapcore.InfoLevel, w: zapcore.Lock(zapcore.AddSync(w))}
}

// With implements zapcore.Core. Entries have no fields: what matters is in
// the text, where PCP's scripts look for it.
func (c *logCore) With([]zapcore.Field) zapcore.Core { return c }

// Check implements zapcore.Core.
func (c *logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *logCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	text := e.Message + "\n"
	if e.LoggerName != "plain" {
		level := map[zapcore.Level]string{
			zapcore.InfoLevel: "Info", zapcore.WarnLevel: "Warning", zapcore.ErrorLevel: "Error",
		}[e.Level]
		if level == "" {
			level = "Critical"
		}
		text = fmt.Sprintf("[%s] pmcd(%d) %s: %s", e.Time.Format("Mon Jan _2 15:04:05"), os.Getpid(), level, text)
	}
	_, err := c.w.Write([]byte(text))
	return err
}

// Sync implements zapcore.Core.
func (c *logCore) Sync() error { return nil }
