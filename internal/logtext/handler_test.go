package logtext

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Messages have the format of pmNotifyErr(3).
func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
		want string // without time stamp, name and process id
	}{
		{"debug is dropped", func(l *slog.Logger) { l.Debug("x") }, ""},
		{"info", func(l *slog.Logger) { l.Info("x") }, "Info: x\n"},
		{"notice", func(l *slog.Logger) { l.Log(t.Context(), slog.LevelInfo+2, "x") }, "Info: x\n"},
		{"warning", func(l *slog.Logger) { l.Warn("x") }, "Warning: x\n"},
		{"error", func(l *slog.Logger) { l.Error("x") }, "Error: x\n"},
		{"critical", func(l *slog.Logger) { l.Log(t.Context(), LevelCritical, "x") }, "Critical: x\n"},
		{"newline at the end", func(l *slog.Logger) { l.Info("x\n") }, "Info: x\n"},
		{"lines", func(l *slog.Logger) { l.Info("x\n y", "a", 1) }, "Info: x\n y a=1\n"},
		{"attributes", func(l *slog.Logger) { l.Info("x", "a", 1, "b", "two words", "c", "", "d", "e=f", "g h", "i") },
			"Info: x a=1 b=\"two words\" c=\"\" d=\"e=f\" \"g h\"=i\n"},
		{"values", func(l *slog.Logger) {
			l.Info("x", "err", errors.New("bad luck"), "t", time.Second, "b", []byte("abc"), "n", nil, "u", "\xff\n")
		}, "Info: x err=\"bad luck\" t=1s b=abc n=<nil> u=\"\\xff\\n\"\n"},
		{"empty", func(l *slog.Logger) { l.Info("x", slog.Attr{}, slog.Group("g")) }, "Info: x\n"},
		{"groups", func(l *slog.Logger) { l.Info("x", slog.Group("g", "a", 1, slog.Group("", "b", 2))) }, "Info: x g.a=1 g.b=2\n"},
		{"with", func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").WithGroup("").Info("x", "c", 3)
		}, "Info: x a=1 g.b=2 g.h.c=3\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(slog.New(NewHandler(&b, "prog", slog.LevelInfo)))
			head := regexp.MustCompile(fmt.Sprintf(`^\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d\] prog\(%d\) `, os.Getpid()))
			got := head.ReplaceAllString(b.String(), "")
			if got != tt.want || got == b.String() && got != "" {
				t.Errorf("got %q, want %q", b.String(), tt.want)
			}
		})
	}
}

// In the journal each line has a priority and nothing that the journal has itself.
func TestJournalHandler(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewJournalHandler(&b, slog.LevelInfo)).With("agent", "root")
	log.Debug("x")
	log.Info("{agent}: {error}", "error", errors.New("a\nb"))
	log.Warn("x", "host", "a\nb")
	log.Error("{agent} x")
	log.Log(t.Context(), LevelCritical, "two\nlines {agent}\n")
	want := "<6>root: a\n<6>\t| b\n<4>x agent=root host=\"a\\nb\"\n<3>root x\n<2>two\n<2>lines root\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

// Handlers derived from the same Handler have separate attributes, and do not
// write their lines at the same time.
func TestDerivedHandlers(t *testing.T) {
	var b bytes.Buffer
	base := slog.New(NewHandler(&b, "prog", slog.LevelInfo)).With("base", 1)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			l := base.With("i", i)
			for range 100 {
				l.Info("x")
			}
		})
	}
	wg.Wait()
	lines := regexp.MustCompile(`(?m)^\[.*\] prog\(\d+\) Info: x base=1 i=[0-3]$`).FindAllString(b.String(), -1)
	if len(lines) != 400 || strings.Count(b.String(), "\n") != 400 {
		t.Errorf("%d good lines of %d, want 400", len(lines), strings.Count(b.String(), "\n"))
	}
}
