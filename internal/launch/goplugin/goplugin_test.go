package goplugin_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"plugin"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/goplugin"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
)

func TestSymbols(t *testing.T) {
	tests := []struct{ entry, want string }{
		{"simple_init", "SimpleInit NewAgent"},
		{"init", "Init NewAgent"},
		{"a__b_", "AB NewAgent"},
		{"new_agent", "NewAgent"},
		{"", "NewAgent"},
	}
	for _, tt := range tests {
		if got := strings.Join(goplugin.Symbols(tt.entry), " "); got != tt.want {
			t.Errorf("Symbols(%q) = %q, want %q", tt.entry, got, tt.want)
		}
	}
}

// tmp exists during all tests: a plugin cannot be loaded again from another path.
var tmp string

func TestMain(m *testing.M) {
	var err error
	if tmp, err = os.MkdirTemp("", "goplugin"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(tmp)
	os.Exit(code)
}

// builtWith reports whether the test binary was built with a setting.
func builtWith(key, value string) bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: key, Value: value})
}

func build(t *testing.T, so string, args ...string) {
	t.Helper()
	args = append([]string{"build", "-o", so}, args...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

// A plugin passes the suite of agents. Whatever its entries do wrong is an error.
// The plugin must be built with the same flags as the test binary.
func TestOpen(t *testing.T) {
	if builtWith("-cover", "true") {
		t.Skip("with -cover the test binary has other versions of the packages")
	}
	so := filepath.Join(tmp, "pmda_simple.so")
	args := []string{"-buildmode=plugin"}
	if builtWith("-race", "true") {
		args = append(args, "-race")
	}
	build(t, so, append(args, "./testdata/plugin")...)
	var l goplugin.Loader
	for range 2 { // a restart of the agent calls the entry again
		a, err := l.Open(t.Context(), so, "simple_init", 400)
		if err != nil {
			t.Fatal(err)
		}
		w := transport.Local(a)
		transporttest.Test(t, w, (&transporttest.Agent{Domain: 400}).Metrics()...)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}

	for entry, want := range map[string]string{
		"no_such":     "has no function NoSuch or NewAgent",
		"other_init":  "OtherInit is a func(), not a func(int) (agents.Agent, error)",
		"fails_init":  "FailsInit: no such device",
		"none_init":   "NoneInit: returned neither an agent nor an error",
		"panics_init": "PanicsInit: panicked: ouch\n",
		"exits_init":  "ExitsInit: ended the goroutine that called it",
	} {
		if _, err := l.Open(t.Context(), so, entry, 400); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with entry %s: %v, want %q", entry, err, want)
		}
	}

	t.Run("stuck", func(t *testing.T) {
		p, err := plugin.Open(so)
		if err != nil {
			t.Fatal(err)
		}
		leave, err := p.Lookup("Leave")
		if err != nil {
			t.Fatal(err)
		}
		*leave.(*chan struct{}) = make(chan struct{}) // closed when StuckInit is called again
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := l.Open(ctx, so, "stuck_init", 400); err == nil || !strings.Contains(err.Error(), "StuckInit has not returned in time") {
			t.Errorf("stuck: %v", err)
		}
		if _, err := l.Open(t.Context(), so, "stuck_init", 400); err == nil || !strings.Contains(err.Error(), "has not returned yet") {
			t.Errorf("second call: %v", err)
		}
		if _, err := l.Open(t.Context(), so, "simple_init", 400); err != nil {
			t.Errorf("another entry: %v", err)
		}
		close(*leave.(*chan struct{}))
		for err = errors.New("not tried"); err != nil; {
			_, err = l.Open(t.Context(), so, "stuck_init", 400)
			if err != nil && !strings.Contains(err.Error(), "has not returned yet") {
				t.Fatal(err)
			}
		}
	})

	t.Run("changed", func(t *testing.T) {
		fi, err := os.Stat(so)
		if err != nil {
			t.Fatal(err)
		}
		const advice = " has changed since pmcd loaded it, and code can be loaded only once: restart pmcd to use it"
		for _, step := range []struct {
			name     string
			modified time.Time
			want     string
		}{
			{"unchanged", fi.ModTime(), ""},
			{"changed", time.Unix(1e9, 0), so + advice},
			{"the same change", time.Unix(1e9, 0), ""},
			{"as it was loaded", fi.ModTime(), ""},
			{"changed again", time.Unix(1e9, 0), so + advice},
		} {
			if err := os.Chtimes(so, time.Time{}, step.modified); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := l.Changed(so); err != nil {
				got = err.Error()
			}
			if got != step.want {
				t.Errorf("%s: Changed says %q, want %q", step.name, got, step.want)
			}
		}
		if _, err := l.Open(t.Context(), so, "simple_init", 400); err == nil || err.Error() != so+advice {
			t.Errorf("got %v, want the text that says to restart pmcd", err)
		}
		for _, path := range []string{so + "x", "/dev/null"} { // missing, never loaded
			if err := l.Changed(path); err != nil {
				t.Errorf("Changed(%s): %v", path, err)
			}
		}
	})
}

// A file that is not a plugin, or not one for this program, is not opened.
func TestCheck(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	built := func(name string, args ...string) string {
		so := filepath.Join(dir, name)
		build(t, so, append(args, src)...)
		return so
	}
	none := goplugin.ErrNotPlugin
	type check struct {
		name, path, text string
		err              error // wrapped
	}
	tests := []check{
		{"missing", filepath.Join(dir, "none.so"), "no such file", fs.ErrNotExist},
		{"directory", dir, "", none},
		{"text", src, "not a Go plugin", none},
		{"C DSO", "/usr/lib/pcp/pmdas/sample/pmda_sample.so", "not a Go plugin", none},
		{"C library", "/lib/x86_64-linux-gnu/libc.so.6", "not a Go plugin", none},
		{"program", self, "-buildmode=exe", none},
		{"-tags", built("tags.so", "-buildmode=plugin", "-tags=a"), "tags.so is built with -tags=a, pmcd with no -tags", nil},
	}
	if !testing.Short() { // the standard library is compiled again for each of these
		tests = append(tests, []check{
			{"C shared", built("c.so", "-buildmode=c-shared"), "-buildmode=c-shared", none},
			{"-trimpath", built("trim.so", "-buildmode=plugin", "-trimpath"), "trim.so is built with -trimpath=true, pmcd with no -trimpath", nil},
		}...)
	}
	for _, key := range []string{"-cover", "-race"} { // -race is compared first
		if builtWith(key, "true") {
			for i := range tests {
				if strings.HasPrefix(tests[i].name, "-") {
					tests[i].text = "no " + key + ", pmcd with " + key + "=true"
				}
			}
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := os.Stat(tt.path); err != nil && tt.err != fs.ErrNotExist {
				testutil.Missing(t, err)
			}
			var l goplugin.Loader
			_, opened := l.Open(t.Context(), tt.path, "simple_init", 400)
			for _, err := range []error{goplugin.Check(tt.path), opened} {
				if err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, want %q", err, tt.text)
				}
				if tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("%v does not wrap %v", err, tt.err)
				}
				if tt.err == nil && errors.Is(err, none) {
					t.Errorf("%v wraps %v", err, none)
				}
			}
		})
	}
}
