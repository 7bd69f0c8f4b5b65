package logtext_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// A handler keeps the last text.
type handler struct {
	scope    logtext.Scope
	text     *string
	template *bool
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	var b []byte
	b, *h.template = logtext.Append(b, r.Message, h.scope.Attrs(r))
	*h.text = string(b)
	return nil
}
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.scope = h.scope.WithAttrs(attrs)
	return h
}
func (h handler) WithGroup(name string) slog.Handler {
	h.scope = h.scope.WithGroup(name)
	return h
}

// A braced is a value whose text looks like a name.
type braced struct{}

func (braced) String() string { return "{a}" }

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		name     string
		log      func(*slog.Logger)
		want     string
		template bool
	}{
		{"text", func(l *slog.Logger) { l.Info("it works") }, "it works", false},
		{"attributes follow", func(l *slog.Logger) { l.Info("m", "a", 1, "b c", "d e", "f", []byte("g")) }, `m a=1 "b c"="d e" f=g`, false},
		{"named", func(l *slog.Logger) { l.Info("{a} and {b}", "a", 1, "b", errors.New("no file")) }, "1 and no file", true},
		{"quoted", func(l *slog.Logger) { l.Info("{a:q}: {b:q}", "a", "x\"y\n", "b", 1.5) }, `"x\"y\n": "1.5"`, true},
		{"the others are not in the line", func(l *slog.Logger) { l.With("z", 0).Info("a is {a}", "a", time.Second, "b", 2) }, "a is 1s", true},
		{"of the logger", func(l *slog.Logger) { l.With("a", 1).Info("a is {a}") }, "a is 1", true},
		{"the last one counts", func(l *slog.Logger) { l.With("a", 1).Info("a is {a}", "a", 2) }, "a is 2", true},
		{"in a group", func(l *slog.Logger) { l.WithGroup("g").Info("{g.a} {a}", "a", 1) }, "1 {a}", true},
		{"a group", func(l *slog.Logger) { l.Info("{g.a}", slog.Group("g", "a", 1)) }, "1", true},
		{"values are not looked at", func(l *slog.Logger) { l.Info("{a} {b}", "a", "{b}", "b", braced{}) }, "{b} {a}", true},
		{"not the name of an attribute", func(l *slog.Logger) { l.Info(`{"a": {}} {x} {a:x} {`, "a", 1) }, `{"a": {}} {x} {a:x} { a=1`, false},
		{"braces in braces", func(l *slog.Logger) { l.Info("{{a}}", "a", 1) }, "{1}", true},
		{"event", func(l *slog.Logger) { l.Info("m", logtext.Event("x_y"), "a", 1) }, "m a=1", false},
		{"bare", func(l *slog.Logger) { l.With(logtext.Bare()).Info("m", "a", 1) }, "m a=1", false},
		{"control characters", func(l *slog.Logger) {
			l.Info("{a} {b}", "a", "\x1b[2J\r\u009b\u202e\x7f\xff\a\t\ufffdé", "b", "\u200b\u2028")
		},
			`\x1b[2J\r\u009b\u202e\x7f\xff\a` + "\t\ufffdé" + ` \u200b\u2028`, true},
		{"in a message", func(l *slog.Logger) { l.Info("a\x1b\n\tb {a:q}", "a", "\x1b\n") }, "a\\x1b\n\tb \"\\x1b\\n\"", true},
		{"a line break", func(l *slog.Logger) { l.Info("{a}", "a", "x\ny") }, `x\ny`, true},
		{"lines of an error", func(l *slog.Logger) { l.Info("m: {a}; m", "a", errors.New("x\n[Sat] pmcd(1) Error: y\n\n")) }, "m: x\n\t| [Sat] pmcd(1) Error: y; m", true},
		{"a list", func(l *slog.Logger) { l.Info("m:{a}", "a", []string{"x\ny", "\x1b", ""}) }, "m:\n\t| x\\ny\n\t| \\x1b\n\t| ", true},
		{"lines", func(l *slog.Logger) { l.Info("m: {a}", "a", logtext.Lines("x\x1b\n\ty\n")) }, "m: x\\x1b\n\ty\n", true},
		{"bare by accident", func(l *slog.Logger) { l.Info("m", "bare", true) }, "m bare=true", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text string
			var template bool
			tt.log(slog.New(handler{text: &text, template: &template}))
			if text != tt.want || template != tt.template {
				t.Errorf("got %q, %v, want %q, %v", text, template, tt.want, tt.template)
			}
		})
	}
}
