package openmetrics

import (
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
