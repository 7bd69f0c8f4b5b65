// Package logging writes the log of pmcd: the file and what is done to the one that
// was there, and the forms that an entry has in it. These are the lines of C pmcd's
// pmcd.log (text), JSON, and lines with a priority for the journal.
//
// Programs log with log/slog: a [Handler] writes to the core that [File.Core] returns.
package logging

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap/zapcore"
)

// A textCore writes entries in the format of pmcd.log:
//
//	[Sat Nov 21 13:00:00] pmcd(4321) Info: text
//
// Entries of a logger named bareName are the text alone (pmcd(1), FILES).
type textCore struct {
	zapcore.LevelEnabler
	w zapcore.WriteSyncer
}

// NewCore returns a core that writes to w, in one of the formats of
// --log-format.
func NewCore(w io.Writer, format string) zapcore.Core {
	if format == "json" {
		return newJSONCore(w)
	}
	return &textCore{LevelEnabler: zapcore.InfoLevel, w: zapcore.Lock(zapcore.AddSync(w))}
}

// With implements zapcore.Core. Fields are not written: what matters is in
// the text, where PCP's scripts look for it.
func (c *textCore) With([]zapcore.Field) zapcore.Core { return c }

// Check implements zapcore.Core.
func (c *textCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *textCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	text := e.Message + "\n"
	if e.LoggerName != bareName {
		level := map[zapcore.Level]string{
			zapcore.InfoLevel: "Info", zapcore.WarnLevel: "Warning", zapcore.ErrorLevel: "Error", alertLevel: "Alert",
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
func (c *textCore) Sync() error { return nil }
