package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
		{"critical", func(l *slog.Logger) { l.Log(t.Context(), levelCritical, "x") }, "Critical: x\n"},
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

func TestOpenLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	for _, text := range []string{"one", "two", "three"} {
		f, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text)
		f.Close()
	}
	for name, want := range map[string]string{"log": "three", "log.prev": "two"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", name, b, err, want)
		}
	}

	if _, err := openLog(filepath.Join(dir, "no", "log")); err == nil || err.Error() != "no such file or directory" {
		t.Errorf("missing directory: %v", err)
	}
	// A link to a device is not replaced.
	link := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	f, err := openLog(link)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if to, err := os.Readlink(link); err != nil || to != os.DevNull {
		t.Errorf("link to a device: %q, %v", to, err)
	}
	// A link to a file is not followed.
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link = filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if f, err = openLog(link); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if b, err := os.ReadFile(target); string(b) != "precious" {
		t.Errorf("file behind a link: %q, %v", b, err)
	}
}

// A link to a device is followed, but not that of another user.
func TestLogLinks(t *testing.T) {
	for _, tt := range []struct {
		owner  int
		device bool
	}{{os.Geteuid(), true}, {65534, false}} {
		link := filepath.Join(t.TempDir(), "log")
		if err := os.Symlink(os.DevNull, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(link, tt.owner, -1); err != nil {
			t.Skip(err)
		}
		f, err := openLog(link)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		f.Close()
		if err != nil || st.Mode().IsRegular() == tt.device {
			t.Errorf("a link of user %d: %v, %v", tt.owner, st.Mode(), err)
		}
	}
}
