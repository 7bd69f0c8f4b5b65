package logging

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"go.uber.org/zap/zapcore"
)

// isJournal reports whether fd is the stream to the journal that JOURNAL_STREAM
// names by device and inode (systemd.exec(5)): output may have been redirected
// since that was set.
func isJournal(stream string, fd int) bool {
	var st syscall.Stat_t
	return stream != "" && syscall.Fstat(fd, &st) == nil && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// StderrIsJournal reports whether the standard error output leads to the journal.
func StderrIsJournal() bool { return isJournal(os.Getenv("JOURNAL_STREAM"), 2) }

// A journalCore writes entries for the journal: each line has its priority in
// front (sd-daemon(3)), and there is no time and no pid, which the journal has.
type journalCore struct {
	zapcore.LevelEnabler
	w zapcore.WriteSyncer
}

func NewJournalCore(w io.Writer) zapcore.Core {
	return &journalCore{LevelEnabler: zapcore.InfoLevel, w: zapcore.Lock(zapcore.AddSync(w))}
}

// With implements zapcore.Core; see textCore.
func (c *journalCore) With([]zapcore.Field) zapcore.Core { return c }

// Check implements zapcore.Core.
func (c *journalCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core. It leaves out empty lines, as the journal does.
func (c *journalCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	priority := 2 // critical
	switch e.Level {
	case zapcore.DebugLevel:
		priority = 7
	case zapcore.InfoLevel:
		priority = 6
	case zapcore.WarnLevel:
		priority = 4
	case zapcore.ErrorLevel:
		priority = 3
	}
	var b strings.Builder
	for line := range strings.SplitSeq(e.Message, "\n") {
		if strings.TrimSpace(line) != "" {
			fmt.Fprintf(&b, "<%d>%s\n", priority, line)
		}
	}
	_, err := io.WriteString(c.w, b.String())
	return err
}

// Sync implements zapcore.Core.
func (c *journalCore) Sync() error { return nil }
