package rootchild

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

// me may own files in tests as root may elsewhere.
var me = uint32(os.Getuid())

// file makes an executable file and the directories that it is in.
func file(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrusted(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return dir + "/" + name }
	good := file(t, at("good/bin/agent"))
	file(t, at("writable/agent"))
	do(t, os.Chmod(at("writable/agent"), 0o757))
	file(t, at("group/agent"))
	do(t, os.Chmod(at("group/agent"), 0o775))
	file(t, at("open/bin/agent"))
	do(t, os.Chmod(at("open"), 0o777))
	file(t, at("sticky/bin/agent"))
	do(t, os.Chmod(at("sticky"), 0o777|os.ModeSticky))
	do(t, os.Symlink(good, at("link")))
	do(t, os.Symlink("good/../link", at("link2")))
	do(t, os.Symlink("bin", at("good/dirlink")))
	do(t, os.Symlink("open/bin", at("intoOpen")))
	do(t, os.Symlink(good, at("open/link")))
	do(t, os.Symlink("loop", at("loop")))
	do(t, os.Symlink("nowhere", at("dangling")))
	for _, c := range []struct{ path, want string }{
		{good, ""},
		{at("good/./dirlink/../bin//agent"), ""},
		{at("link2"), ""},
		{at("good/dirlink/agent"), ""},
		{at("sticky/bin/agent"), ""},
		{at("writable/agent"), "agent can be written to by others than root (mode 0757)"},
		{at("group/agent"), "agent can be written to by others than root (mode 0775)"},
		{at("open/bin/agent"), at("open") + " can be written to by others"},
		{at("intoOpen/agent"), at("open") + " can be written to by others"},
		{at("open/link"), at("open") + " can be written to by others"},
		{at("intoOpen/../bin/agent"), at("open") + " can be written to by others"},
		{at("loop"), "too many levels of symbolic links"},
		{at("dangling"), "no such file"},
		{at("none/agent"), "no such file"},
		{at("good"), "good is not a file"},
		{at("good/bin/.."), "is a directory"},
		{good + "/x", "is not a directory"},
		{"/dev/null", "is not a file"},
	} {
		err := trusted(c.path, me)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

func TestTrustedOwner(t *testing.T) {
	if me != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	for _, give := range []string{"d", "d/agent", "link"} {
		file(t, filepath.Join(dir, "d/agent"))
		os.Symlink("d/agent", filepath.Join(dir, "link"))
		path := filepath.Join(dir, "link")
		do(t, trusted(path, 0))
		do(t, os.Lchown(filepath.Join(dir, give), 1, 0))
		if err := trusted(path, 0); err == nil || !strings.Contains(err.Error(), give+" belongs to user 1 and not to root") {
			t.Errorf("%s of another user: %v", give, err)
		}
		do(t, os.Lchown(filepath.Join(dir, give), 0, 0))
	}
}

func TestTrustedProgram(t *testing.T) {
	dir := t.TempDir()
	good, bad := file(t, filepath.Join(dir, "good")), file(t, filepath.Join(dir, "bad"))
	do(t, os.Chmod(bad, 0o777))
	for _, c := range []struct {
		line string
		want string
	}{
		{"pipe binary GOOD -d 3", ""},
		{"pipe binary GOOD -l BAD", "can be written"}, // taken for a script
		{"pipe binary GOOD -d 3 -l BAD", ""},
		{"pipe binary BAD", "can be written"},
		{"pipe binary sh GOOD BAD", ""},
		{"pipe binary sh -e BAD", "can be written"},
		{"socket inet 1234 BAD", "can be written"},
		{"pipe binary sh GOOD/none", "not a directory"},
		{"pipe binary sh /no/such/script", "no such file"},
		{"pipe binary nosuchprogramatall", "not found"},
		{"dso x_init GOOD", ""},
		{"dso x_init BAD", "can be written"},
	} {
		text := "a 1 " + strings.NewReplacer("GOOD", good, "BAD", bad).Replace(c.line) + "\n"
		conf, err := pmcdconf.Parse("conf", strings.NewReader(text), pmcdconf.Options{})
		do(t, err)
		program, err := trustedProgram(&conf.Agents[0], me)
		if argv := conf.Agents[0].Argv; err == nil && len(argv) > 0 && (!filepath.IsAbs(program) || filepath.Base(program) != filepath.Base(argv[0])) {
			t.Errorf("%s: the program is %q", c.line, program)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}
