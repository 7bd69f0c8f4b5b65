package cli

import (
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// A Warning is a line for the log: a message and its attributes, as package logtext
// renders them.
type Warning struct {
	Message string
	Attrs   []any // as for slog.Logger.Warn
}

// String returns the text of the line.
func (w Warning) String() string {
	r := slog.NewRecord(time.Time{}, slog.LevelWarn, w.Message, 0)
	r.Add(w.Attrs...)
	text, _ := logtext.Append(nil, w.Message, logtext.Scope{}.Attrs(r))
	return string(text)
}

// Mistake adds a mistake that does not keep pmcd from starting. It is a warning in the log,
// and a problem in the status.
func (opt *Options) Mistake(message string, attrs ...any) {
	w := Warning{message, attrs}
	opt.Mistakes = append(opt.Mistakes, w.String())
	opt.Warnings = append(opt.Warnings, w)
}

// Warn adds a warning for the log.
func (opt *Options) Warn(message string, attrs ...any) {
	opt.Warnings = append(opt.Warnings, Warning{message, attrs})
}
