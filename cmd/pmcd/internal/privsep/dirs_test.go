package privsep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Root makes directories for the user only where that user cannot have put a link.
func TestMakeDirs(t *testing.T) {
	testutil.NeedRoot(t)
	id := &Identity{Name: "other", UID: 1, GID: 1}
	for _, tt := range []struct {
		name   string
		before func(at func(string) string) error
		made   string // "", or the directory that is made
		mode   fs.FileMode
		owner  uint32
	}{
		{"nothing is there", func(func(string) string) error { return nil }, "var/tmp", 0o775, 1},
		{"an admin has given it another mode and owner", func(at func(string) string) error {
			return errors.Join(os.MkdirAll(at("var/tmp"), 0o755), os.Chmod(at("var/tmp"), 0o777|fs.ModeSticky))
		}, "var/tmp", 0o777 | fs.ModeSticky, 0},
		{"the user owns the directory above", func(at func(string) string) error {
			return errors.Join(os.Mkdir(at("var"), 0o755), os.Chown(at("var"), 1, 1))
		}, "", 0, 0},
		{"the user has linked it", func(at func(string) string) error {
			return errors.Join(os.Mkdir(at("var"), 0o755), os.Chown(at("var"), 1, 1), os.Symlink("../etc/new", at("var/tmp")))
		}, "", 0, 0},
		{"the group may write to the directory above", func(at func(string) string) error {
			return errors.Join(os.Mkdir(at("var"), 0o775), os.Chmod(at("var"), 0o775), os.Chown(at("var"), 0, 1))
		}, "", 0, 0},
		{"root has linked the directory above", func(at func(string) string) error {
			return errors.Join(os.Mkdir(at("disk"), 0o755), os.Symlink("disk", at("var")))
		}, "disk/tmp", 0o775, 1},
		{"root's link leads to a directory of the user", func(at func(string) string) error {
			return errors.Join(os.Mkdir(at("disk"), 0o755), os.Chown(at("disk"), 1, 1), os.Symlink("disk", at("var")))
		}, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := testutil.SharedDir(t)
			at := func(name string) string { return filepath.Join(dir, name) }
			if err := errors.Join(os.Mkdir(at("etc"), 0o755), tt.before(at)); err != nil {
				t.Fatal(err)
			}
			if err := id.MakeDirs(at("var/tmp")); err != nil {
				t.Error(err)
			}
			if names, err := os.ReadDir(at("etc")); err != nil || len(names) > 0 {
				t.Errorf("where the link leads: %v, %v", names, err)
			}
			if tt.made == "" {
				if fi, err := os.Lstat(at("var/tmp")); err == nil && fi.IsDir() {
					t.Errorf("made: %v", fi)
				}
				return
			}
			fi, err := os.Lstat(at(tt.made))
			if err != nil {
				t.Fatal(err)
			}
			if by := fi.Sys().(*syscall.Stat_t).Uid; !fi.IsDir() || fi.Mode()&^fs.ModeDir != tt.mode || by != tt.owner {
				t.Errorf("%v of user %d, want mode %v of user %d", fi.Mode(), by, tt.mode, tt.owner)
			}
		})
	}
}

// The mode is that of PCP's packages, whatever the umask. One that an admin gave stays, and so does a link:
// the rights of this process are its user's.
func TestMakeOwnDirs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(at("tmp"), 0o755), os.Mkdir(at("tmp/own"), 0o700), os.Symlink("nowhere", at("tmp/link")))
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeOwnDirs(at("tmp/mmv"), at("tmp/own"), at("tmp/link")); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]fs.FileMode{"tmp/mmv": 0o775 | fs.ModeDir, "tmp/own": 0o700 | fs.ModeDir, "tmp/link": 0o777 | fs.ModeSymlink} {
		if fi, err := os.Lstat(at(name)); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
	if _, err := os.Lstat(at("tmp/nowhere")); err == nil {
		t.Error("the directory that a link names was made")
	}
}
