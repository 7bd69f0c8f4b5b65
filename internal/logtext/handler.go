package logtext

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// LevelCritical is above slog's levels. It is for errors that keep a program from starting.
const LevelCritical = slog.LevelError + 4

// A Handler is a slog.Handler that writes messages in the format of PCP's programs
// (pmNotifyErr(3)):
//
//	[Sat Nov 21 13:00:00] pmdasimple(4321) Info: text key=value
//
// The words for slog's levels are Debug, Info, Warning and Error. A higher level
// is Critical. The text may have several lines.
//
// For the journal there is a form without what that has itself.
type Handler struct {
	level slog.Leveler
	name  string
	mu    *sync.Mutex // serializes writes to w; shared with Handlers derived from this one
	w     io.Writer
	scope Scope

	journal bool
}

// NewHandler returns a Handler for the program name. It writes each message with
// one call of w.Write and drops messages below level.
func NewHandler(w io.Writer, name string, level slog.Leveler) *Handler {
	return &Handler{level: level, name: name, mu: new(sync.Mutex), w: w}
}

// NewJournalHandler returns a Handler for a standard error output that leads to the journal.
// Each line begins with its priority, as in <4> (sd-daemon(3)), and has no time and no name.
func NewJournalHandler(w io.Writer, level slog.Leveler) *Handler {
	return &Handler{level: level, mu: new(sync.Mutex), w: w, journal: true}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	t := r.Time
	if t.IsZero() {
		t = time.Now()
	}
	level, priority := levelName(r.Level)
	head := fmt.Sprintf("[%s] %s(%d) %s: ", t.Format("Mon Jan _2 15:04:05"), h.name, os.Getpid(), level)
	if h.journal {
		head = fmt.Sprintf("<%d>", priority)
	}
	b, _ := Append([]byte(head), strings.TrimRight(r.Message, "\n"), h.scope.Attrs(r))
	if h.journal {
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\n"+head))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(append(b, '\n'))
	return err
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.scope = h.scope.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.scope = h.scope.WithGroup(name)
	return &with
}

// levelName returns the word for a level, and its priority in the journal.
func levelName(l slog.Level) (name string, priority int) {
	switch {
	case l < slog.LevelInfo:
		return "Debug", 7
	case l < slog.LevelWarn:
		return "Info", 6
	case l < slog.LevelError:
		return "Warning", 4
	case l < LevelCritical:
		return "Error", 3
	}
	return "Critical", 2
}
