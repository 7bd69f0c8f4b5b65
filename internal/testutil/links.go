package testutil

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// LinkedDir returns the path of a link that another user could have made, to a directory that is
// root's alone. At the end it is an error if anything in that directory has been changed: root must not follow the link. The
// test needs root.
func LinkedDir(t *testing.T) string {
	t.Helper()
	NeedRoot(t)
	dir := SharedDir(t)
	victim, shared := filepath.Join(dir, "victim"), filepath.Join(dir, "shared")
	err := errors.Join(os.Mkdir(victim, 0o755), os.Mkdir(shared, 0o775), os.Symlink(victim, filepath.Join(shared, "link")), os.Chown(shared, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if names, err := os.ReadDir(victim); err != nil || len(names) > 0 {
			t.Errorf("where the link leads: %v, %v", names, err)
		}
		if fi, err := os.Stat(victim); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("where the link leads: %v, %v", fi, err)
		}
	})
	return filepath.Join(shared, "link")
}
