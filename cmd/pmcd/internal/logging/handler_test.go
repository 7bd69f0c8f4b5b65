package logging

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// latency is a slog.LogValuer.
type latency time.Duration

func (l latency) LogValue() slog.Value { return slog.DurationValue(time.Duration(l)) }

// Records of log/slog have the form of pmcd.log, and none of their parts is
// lost.
func TestHandler(t *testing.T) {
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string // after the time; "" is no line
	}{
		{"text", func(l *slog.Logger) { l.Info("it works") }, "Info: it works"},
		{"debug is off", func(l *slog.Logger) { l.Debug("no") }, ""},
		{"levels", func(l *slog.Logger) { l.Warn("w") }, "Warning: w"},
		{"levels in between", func(l *slog.Logger) { l.Log(t.Context(), logtext.LevelAlert, "e") }, "Alert: e"},
		{"between those", func(l *slog.Logger) { l.Log(t.Context(), slog.LevelWarn+2, "w") }, "Warning: w"},
		{"attributes", func(l *slog.Logger) {
			l.Info("m", "n", 1, "err", errors.New("no such file"), "d", latency(time.Second))
		}, `Info: m n=1 err="no such file" d=1s`},
		{"hostile values", func(l *slog.Logger) { l.Info("m", "a", "x\ny", "b", "", "c", "p=q", "d", "\x1b[0m") }, `Info: m a="x\\ny" b="" c="p=q" d="\\x1b\[0m"`},
		{"of the logger, and a group", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).Info("m", "c", 3) }, "Info: m a=1 g.b=2 g.c=3"},
		{"loggers do not share", func(l *slog.Logger) {
			base := l.With("a", 1)
			base.With("b", 2)
			base.WithGroup("g")
			base.Info("m", "c", 3)
		}, "Info: m a=1 c=3"},
		{"groups as attributes", func(l *slog.Logger) {
			l.WithGroup("").Info("m", slog.Group("g", "a", 1, slog.Group("h", "b", 2)), slog.Group("", "c", 3), slog.Group("empty"), slog.Attr{})
		}, "Info: m g.a=1 g.h.b=2 c=3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(slog.New(NewHandler(NewCore(&b, "text"))))
			want := "^$"
			if tt.want != "" {
				want = fmt.Sprintf(`^\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] pmcd\(%d\) %s\n$`, os.Getpid(), tt.want)
			}
			if !regexp.MustCompile(want).MatchString(b.String()) {
				t.Errorf("got %q, want %s", b.String(), want)
			}
		})
	}
}
