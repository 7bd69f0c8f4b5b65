package logging

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"unicode"

	"go.uber.org/zap/zapcore"
)

// A slogHandler has records of log/slog in pmcd's log: built-in agents and
// plugins use that package, whose default logger is set to one with it.
// Attributes follow the text as name=value.
type slogHandler struct {
	core  zapcore.Core
	attrs string // of the logger, as they are written
	group string // before names of attributes, with a dot at its end
}

var _ slog.Handler = slogHandler{}

// NewSlogHandler returns a handler that has records of log/slog in the log of core.
func NewSlogHandler(core zapcore.Core) slog.Handler { return slogHandler{core: core} }

// Enabled implements [slog.Handler].
func (h slogHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.core.Enabled(zapLevel(l))
}

// Handle implements [slog.Handler].
func (h slogHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.group, a)
		return true
	})
	return h.core.Write(zapcore.Entry{Level: zapLevel(r.Level), Time: r.Time, Message: b.String()}, nil)
}

// WithAttrs implements [slog.Handler].
func (h slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		writeAttr(&b, h.group, a)
	}
	h.attrs = b.String()
	return h
}

// WithGroup implements [slog.Handler].
func (h slogHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.group += name + "."
	}
	return h
}

func writeAttr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, a := range v.Group() {
			writeAttr(b, group, a)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	text := v.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool {
		return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}) {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + group + a.Key + "=" + text)
}

// zapLevel returns the level of zap for one of slog, which may be in between.
func zapLevel(l slog.Level) zapcore.Level {
	switch {
	case l < slog.LevelInfo:
		return zapcore.DebugLevel
	case l < slog.LevelWarn:
		return zapcore.InfoLevel
	case l < slog.LevelError:
		return zapcore.WarnLevel
	}
	return zapcore.ErrorLevel
}
