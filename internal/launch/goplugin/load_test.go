package goplugin_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/launch/goplugin"
)

// loader is shared by all tests, because a plugin can be loaded only once. With
// -count a test uses what it has loaded before.
var loader goplugin.Loader

// buildPlugin builds a plugin with the flags of the test binary, if it does not
// exist yet.
func buildPlugin(t *testing.T, name, dir string) string {
	t.Helper()
	if builtWith("-cover", "true") {
		t.Skip("with -cover the test binary has other versions of the packages")
	}
	so := filepath.Join(tmp, name)
	if _, err := os.Stat(so); err == nil {
		return so
	}
	args := []string{"-buildmode=plugin"}
	if builtWith("-race", "true") {
		args = append(args, "-race")
	}
	build(t, so, append(args, dir)...)
	return so
}

// wantOpenError fails the test unless Open returns an error that contains want.
func wantOpenError(t *testing.T, so, want string) {
	t.Helper()
	if _, err := loader.Open(t.Context(), so, "simple_init", 400); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestInitFails(t *testing.T) {
	for name, want := range map[string]string{
		"panics": "panics.so: its init functions: panicked: no licence\ngoroutine ",
		"exits":  "exits.so: its init functions: ended the goroutine that called it",
	} {
		so := buildPlugin(t, name+".so", "./testdata/"+name)
		for range 2 { // a second plugin.Open would block for ever
			wantOpenError(t, so, want)
		}
	}
}

// If an init function does not return, Open of that plugin fails when its context
// ends. Other plugins can be opened.
func TestInitHangs(t *testing.T) {
	if _, err := os.Stat(filepath.Join(tmp, "hangs.so")); err == nil {
		t.Skip("the plugin is loaded: with -count its init function has returned")
	}
	so := buildPlugin(t, "hangs.so", "./testdata/hangs")
	leave := filepath.Join(t.TempDir(), "leave")
	t.Setenv("GOPLUGIN_TEST_LEAVE", leave)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := loader.Open(ctx, so, "simple_init", 400); err == nil || !strings.Contains(err.Error(), "hangs.so: its init functions have not returned in time") {
			t.Errorf("got %v", err)
		}
	}
	wantOpenError(t, buildPlugin(t, "panics2.so", "./testdata/panics"), "/panics2")
	if err := os.WriteFile(leave, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, so, "NewAgent: returned neither an agent nor an error")
}

// A plugin that is loaded cannot be loaded again from another path.
func TestSamePluginTwice(t *testing.T) {
	buildPlugin(t, "once.so", "./testdata/plugin")
	twice := buildPlugin(t, "twice.so", "./testdata/plugin")
	if _, err := loader.Open(t.Context(), filepath.Join(tmp, "once.so"), "simple_init", 400); err != nil && !strings.Contains(err.Error(), "plugin already loaded") {
		t.Error(err)
	}
	wantOpenError(t, twice, "plugin already loaded")
}

// A plugin with another version of a package that is in the program, too, is
// refused. The error says where each of them comes from.
func TestOtherCopy(t *testing.T) {
	if builtWith("-cover", "true") {
		t.Skip("with -cover the test binary has other versions of the packages")
	}
	dir := t.TempDir()
	for _, pkg := range []string{"agents", "internal/pduformat", "pdu"} {
		if err := os.CopyFS(filepath.Join(dir, pkg), os.DirFS(filepath.Join("../../..", pkg))); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"go.mod": "module github.com/gopcp/pmcd\n\ngo 1.26\n",
		"copy/main.go": `package main

import "github.com/gopcp/pmcd/agents"

func NewAgent(int) (agents.Agent, error) { return nil, nil }

func main() {}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	so := filepath.Join(dir, "copy.so")
	args := []string{"build", "-buildmode=plugin", "-o", so}
	if builtWith("-race", "true") {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./copy")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantOpenError(t, so, "plugin was built with a different version of package github.com/gopcp/pmcd/")
	wantOpenError(t, so, ": the plugin has it from github.com/gopcp/pmcd from a directory, pmcd from github.com/gopcp/pmcd ")
}
