package logging

import (
	"io"
	"os"
	"strings"

	"go.uber.org/zap/zapcore"
)

// A jsonCore writes each entry as a JSON object on a line of its own:
//
//	{"level":"info","time":"2026-11-21T13:00:00.123456789Z","msg":"text","pid":4321,"agent":"simple","domain":253}
//
// A table of the log in text is one entry, whose msg has several lines.
type jsonCore struct{ zapcore.Core }

func newJSONCore(w io.Writer) zapcore.Core {
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey:     timeKey,
		LevelKey:    levelKey,
		MessageKey:  messageKey,
		EncodeTime:  zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel: zapcore.LowercaseLevelEncoder,
	})
	core := zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), zapcore.InfoLevel)
	return jsonCore{core.With([]zapcore.Field{intField(pidKey, int64(os.Getpid()))})}
}

// Check implements [zapcore.Core].
func (c jsonCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements [zapcore.Core]. Empty lines set tables in text apart.
func (c jsonCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = strings.Trim(e.Message, "\n")
	if e.Level == alertLevel {
		e.Level = zapcore.ErrorLevel
	}
	return c.Core.Write(e, fields)
}
