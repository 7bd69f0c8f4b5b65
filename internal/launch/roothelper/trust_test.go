package roothelper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// testOwner is trusted in tests like root.
var testOwner = uint32(os.Getuid())

// writeExecutable creates an executable file and its directories.
func writeExecutable(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrusted(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return dir + "/" + name }
	good := writeExecutable(t, at("good/bin/agent"))
	writeExecutable(t, at("writable/agent"))
	must(t, os.Chmod(at("writable/agent"), 0o757))
	writeExecutable(t, at("group/agent"))
	must(t, os.Chmod(at("group/agent"), 0o775))
	writeExecutable(t, at("open/bin/agent"))
	must(t, os.Chmod(at("open"), 0o777))
	writeExecutable(t, at("sticky/bin/agent"))
	writeExecutable(t, at("sticky/agent"))
	must(t, os.Symlink(good, at("sticky/link")))
	must(t, syscall.Mkfifo(at("sticky/fifo"), 0o622))
	must(t, os.Chmod(at("sticky"), 0o777|os.ModeSticky))
	must(t, os.Symlink(good, at("link")))
	must(t, os.Symlink("good/../link", at("link2")))
	must(t, os.Symlink("bin", at("good/dirlink")))
	must(t, os.Symlink("open/bin", at("intoOpen")))
	must(t, os.Symlink(good, at("open/link")))
	must(t, os.Symlink("loop", at("loop")))
	must(t, os.Symlink("nowhere", at("dangling")))
	must(t, os.Mkdir(at("own"), 0o755))
	must(t, syscall.Mkfifo(at("fifo"), 0o622))
	must(t, syscall.Mkfifo(at("open/fifo"), 0o622))
	must(t, os.Symlink("open/none", at("intoNothing")))
	for _, c := range []struct{ path, file, argument string }{ // file and argument: errors for the two uses
		{good, "", ""},
		{at("good/./dirlink/../bin//agent"), "", ""},
		{at("link2"), "", ""},
		{at("good/dirlink/agent"), "", ""},
		{at("sticky/bin/agent"), "", ""},
		// Others can put a module beside it.
		{at("sticky/agent"), at("sticky") + " is writable by all", at("sticky") + " is writable by all"},
		{at("sticky/link"), at("sticky") + " is writable by all", at("sticky") + " is writable by all"},
		{at("sticky/fifo"), "is not a regular file", ""},
		{at("writable/agent"), "agent is writable by all users", "agent is writable by all users"},
		{at("group/agent"), "agent is writable by group ", "agent is writable by group "},
		{at("open/bin/agent"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("intoOpen/agent"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("open/link"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("intoOpen/../bin/agent"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("loop"), "too many levels of symbolic links", ""},
		{at("dangling"), "no such file", ""},
		{at("none/agent"), "no such file", ""},
		{at("own/none"), "no such file", ""},
		{at("own/" + strings.Repeat("x", 300)), "file name too long", ""},
		{at("open/none"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("intoNothing"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("sticky/none"), "no such file", at("sticky") + " is writable by all"},
		{at("sticky"), "is a directory", at("sticky") + " is writable by all"},
		{at("open"), at("open") + " is writable by all", at("open") + " is writable by all"},
		{at("good"), "is a directory", ""},
		{at("good") + "/", "is a directory", ""},
		{at("good/bin/.."), "is a directory", ""},
		{good + "/x", "not a directory", ""},
		{"/dev/null", "is not a regular file", ""},
		{at("fifo"), "is not a regular file", ""},
		{at("open/fifo"), at("open") + " is writable by all", at("open") + " is writable by all"},
	} {
		t.Run(strings.TrimPrefix(c.path, dir+"/"), func(t *testing.T) {
			for use, want := range map[use]string{toRead: c.file, asArgument: c.argument} {
				err := checkPath(c.path, use, testOwner)
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s, use %d: %v, want %q", c.path, use, err, want)
				}
				var u *Untrusted
				if errors.As(err, &u) {
					if back, err := parseUntrusted(u.encode()); err != nil || *back != *u {
						t.Errorf("%+v is parsed as %+v, %v", u, back, err)
					}
				}
			}
		})
	}
}

// A link and the program that it names, as pmdasimple and pmdas, are trusted only if others can change
// neither of them, nor a directory on the way.
func TestLinkIsTrustedWithItsProgram(t *testing.T) {
	testutil.NeedRoot(t) // to give files away
	for _, c := range []struct {
		what, change, want string
	}{
		{"root's", "", ""},
		{"the link", "pmdas/pmdasimple", "/pmdas/pmdasimple is writable by user daemon"},
		{"the program", "pmdas/pmdas", "/pmdas/pmdas is writable by user daemon"},
		{"their directory", "pmdas", "/pmdas is writable by user daemon"},
		{"the directory above", ".", " is writable by user daemon"},
		{"the other link", "elsewhere/pmdasimple", "/elsewhere/pmdasimple is writable by user daemon"},
		{"the directory of the other link", "elsewhere", "/elsewhere is writable by user daemon"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			writeExecutable(t, filepath.Join(dir, "pmdas/pmdas"))
			must(t, os.Symlink("pmdas", filepath.Join(dir, "pmdas/pmdasimple")))
			must(t, os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755))
			other := filepath.Join(dir, "elsewhere/pmdasimple")
			must(t, os.Symlink("../pmdas/pmdasimple", other))
			if c.change != "" {
				must(t, os.Lchown(filepath.Join(dir, c.change), 1, 0))
			}
			agent := &pmcdconf.Agent{Name: "simple", Domain: 253, Kind: pmcdconf.Pipe, Argv: []string{other, "-d", "253"}}
			if err := CheckAgent(agent); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	must(t, os.Symlink("pmdas", filepath.Join(dir, "pmdasimple")))
	err := CheckAgent(&pmcdconf.Agent{Name: "simple", Domain: 253, Kind: pmcdconf.Pipe, Argv: []string{filepath.Join(dir, "pmdasimple")}})
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link without its program: %v", err)
	}
}

func TestTrustedOwner(t *testing.T) {
	testutil.NeedRoot(t) // to give files away
	dir := t.TempDir()
	for _, give := range []string{"d", "d/agent", "link"} {
		writeExecutable(t, filepath.Join(dir, "d/agent"))
		os.Symlink("d/agent", filepath.Join(dir, "link"))
		path := filepath.Join(dir, "link")
		must(t, checkPath(path, toRead, 0))
		must(t, os.Lchown(filepath.Join(dir, give), 1, 0))
		if err := checkPath(path, toRead, 0); err == nil || !strings.Contains(err.Error(), give+" is writable by user daemon") {
			t.Errorf("%s of another user: %v", give, err)
		}
		must(t, os.Lchown(filepath.Join(dir, give), 0, 0))
	}
}
