package openmetrics

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// As root, the agent runs no script that another user can change, and reads no file that
// another user can choose.
func TestTrust(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.NeedProgram(t, "sh")
	for _, tt := range []struct {
		name, source, text string
		mode               os.FileMode
		dir                os.FileMode
		want               string // in the status; "" if the source is read
	}{
		{"a script of root", "s.sh", "#!/bin/sh\necho x 1\n", 0o755, 0o755, ""},
		{"a script that its group can change", "s.sh", "#!/bin/sh\necho x 1\n", 0o775, 0o755, "s.sh is writable by group"},
		{"a script in a directory of all", "s.sh", "#!/bin/sh\necho x 1\n", 0o755, 0o777, "is writable by all users"},
		{"a file by a source of root", "s.url", "file://PAGE\n", 0o644, 0o755, ""},
		{"a file by a source that all can change", "s.url", "file://PAGE\n", 0o666, 0o755, "s.url is writable by all users"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			page := filepath.Join(t.TempDir(), "page")
			if err := os.WriteFile(page, []byte("x 1\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			h.file(tt.source, strings.ReplaceAll(tt.text, "PAGE", page), tt.mode)
			path := filepath.Join(h.dir, tt.source)
			if err := os.Chmod(path, tt.mode); err != nil { // not masked
				t.Fatal(err)
			}
			if err := os.Chown(path, -1, 1); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(path), tt.dir); err != nil {
				t.Fatal(err)
			}
			a := h.start(Options{})
			testutil.Eventually(t, "the source has been read", func() bool {
				again(a)
				got := values(t, a, "s")
				if tt.want == "" {
					return got == "s.x 1"
				}
				if got != "s: no metric of that name" {
					t.Fatalf("it was read: %s", got)
				}
				return strings.Contains(status(t, a, "s"), tt.want)
			})
		})
	}
}

// As root, the agent follows no link of another user to the file of a URL.
func TestLinkedFile(t *testing.T) {
	testutil.NeedRoot(t)
	dir := testutil.SharedDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(at("secret"), []byte("x 1\n"), 0o600), os.Mkdir(at("shared"), 0o755),
		os.WriteFile(at("shared/file"), []byte("x 2\n"), 0o644), os.Chown(at("shared/file"), 1, 1), os.Symlink("../secret", at("shared/link")),
		os.Link(at("secret"), at("shared/hard")), os.Symlink("..", at("shared/up")), os.Symlink("secret", at("link")), os.Chown(at("shared"), 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	for name, path := range map[string]string{"file": "shared/file", "link": "shared/link", "hard": "shared/hard", "up": "shared/up/secret", "own": "link"} {
		h.file(name+".url", "file://"+at(path), 0o644)
	}
	a := h.start(Options{})
	if got := values(t, a, "file", "own"); got != "file.x 2\nown.x 1" {
		t.Errorf("read %s", got)
	}
	for _, name := range []string{"link", "hard", "up"} {
		if got := status(t, a, name); !strings.Contains(got, "a link in a directory") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
