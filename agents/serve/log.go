package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/logtext"
)

// levelCritical is above slog's levels. It is for errors that keep the agent from
// starting.
const levelCritical = slog.LevelError + 4

// A Handler is a slog.Handler that writes messages in the format of PCP's programs
// (pmNotifyErr(3)):
//
//	[Sat Nov 21 13:00:00] pmdasimple(4321) Info: text key=value
//
// The words for slog's levels are Debug, Info, Warning and Error. A higher level
// is Critical. The text may have several lines. The package comment describes how a
// message can name attributes, and package logtext has the details.
type Handler struct {
	level slog.Leveler
	name  string
	mu    *sync.Mutex // serializes writes to w; shared with Handlers derived from this one
	w     io.Writer
	scope logtext.Scope
}

// NewHandler returns a Handler for the program name. It writes each message with
// one call of w.Write and drops messages below level.
func NewHandler(w io.Writer, name string, level slog.Leveler) *Handler {
	return &Handler{level: level, name: name, mu: new(sync.Mutex), w: w}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	t := r.Time
	if t.IsZero() {
		t = time.Now()
	}
	b := fmt.Appendf(nil, "[%s] %s(%d) %s: ", t.Format("Mon Jan _2 15:04:05"), h.name, os.Getpid(), levelName(r.Level))
	b, _ = logtext.Append(b, strings.TrimRight(r.Message, "\n"), h.scope.Attrs(r))
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

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "Debug"
	case l < slog.LevelWarn:
		return "Info"
	case l < slog.LevelError:
		return "Warning"
	case l < levelCritical:
		return "Error"
	}
	return "Critical"
}
