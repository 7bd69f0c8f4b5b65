package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// tree returns a directory that only this user can change, with directories and links in it.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "victim/sub"), 0o755),
		os.MkdirAll(filepath.Join(dir, "own/sub"), 0o755),
		os.MkdirAll(filepath.Join(dir, "shared/own/sub"), 0o755),
		os.MkdirAll(filepath.Join(dir, "group/sub"), 0o755),
		os.MkdirAll(filepath.Join(dir, "sticky/sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "own/file"), nil, 0o644),
		os.Symlink("own", filepath.Join(dir, "link")),
		os.Symlink(filepath.Join(dir, "own"), filepath.Join(dir, "absolute")),
		os.Symlink("../link/sub/..", filepath.Join(dir, "own/up")),
		os.Symlink("loop", filepath.Join(dir, "loop")),
		os.Symlink("shared/own", filepath.Join(dir, "intoShared")),
		os.Symlink("../victim", filepath.Join(dir, "shared/link")),
		os.Symlink("../victim/new", filepath.Join(dir, "shared/dangling")),
		os.Symlink("../victim", filepath.Join(dir, "sticky/link")),
		os.Chmod(filepath.Join(dir, "shared"), 0o777),
		os.Chmod(filepath.Join(dir, "group"), 0o775),
		os.Chmod(filepath.Join(dir, "sticky"), 0o777|os.ModeSticky),
		os.Chown(filepath.Join(dir, "group"), -1, otherGroup()),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// otherGroup returns a group other than 0 that this user can give a file.
func otherGroup() int {
	if os.Getuid() == 0 {
		return 1
	}
	return os.Getgid()
}

func TestOpen(t *testing.T) {
	dir := tree(t)
	for _, tt := range []struct {
		path           string
		fixed, private bool
		err            error
	}{
		{path: "own", fixed: true, private: true},
		{path: "own/sub/../../own/./sub", fixed: true, private: true},
		{path: "link/sub", fixed: true, private: true},
		{path: "absolute", fixed: true, private: true},
		{path: "own/up/sub", fixed: true, private: true},
		{path: "shared", fixed: true},
		{path: "group", fixed: true},
		{path: "sticky", fixed: true},
		{path: "sticky/sub", fixed: true, private: true},
		{path: "sticky/link", fixed: true, private: true}, // others could not replace it
		{path: "shared/own"},
		{path: "shared/own/sub"},
		{path: "intoShared/sub"},
		{path: "group/sub"},
		{path: "shared/link", err: ErrLink},
		{path: "shared/link/sub", err: ErrLink},
		{path: "shared/dangling", err: ErrLink},
		{path: "intoShared/../link", err: ErrLink},
		{path: "loop", err: errors.New("too many levels of symbolic links")},
		{path: "own/file", err: errors.New("not a directory")},
		{path: "none/sub", err: fs.ErrNotExist},
	} {
		t.Run(tt.path, func(t *testing.T) {
			path := dir + "/" + tt.path
			d, err := openFor(path, os.Getuid(), nil)
			if tt.err != nil {
				if err == nil || !errors.Is(err, tt.err) && !strings.Contains(err.Error(), tt.err.Error()) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if d.Fixed != tt.fixed || d.Private != tt.private || (d.Path == path) != tt.fixed {
				t.Errorf("%+v, want fixed %v, private %v", *d, tt.fixed, tt.private)
			}
			want, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.Stat(d.Path + "/"); err != nil || !os.SameFile(got, want) {
				t.Errorf("%s leads elsewhere: %v", d.Path, err)
			}
		})
	}
}

// What others do later has no effect.
func TestReplaced(t *testing.T) {
	dir := tree(t)
	path := filepath.Join(dir, "shared/own")
	d, err := openFor(path, os.Getuid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := errors.Join(os.Rename(path, path+".moved"), os.Symlink("../victim", path)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Join("file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "victim/file")); err == nil {
		t.Error("the file is where the link leads to")
	}
	if _, err := os.Lstat(path + ".moved/file"); err != nil {
		t.Error(err)
	}
	err = d.Err(os.Mkdir(d.Join("file"), 0o755))
	if want := "mkdir " + path + "/file: file exists"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	err = d.Err(os.Rename(d.Join("none"), d.Join("file")))
	if want := "rename " + path + "/none " + path + "/file: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestMake(t *testing.T) {
	dir := tree(t)
	perm := fs.FileMode(0o711)
	for _, tt := range []struct {
		path string
		ok   bool
	}{
		{"own/a/b", true},
		{"own", true},
		{"shared/a/b", true},
		{"shared/link/b", false},
		{"shared/dangling/b", false},
		{"shared/dangling", false},
	} {
		d, err := openFor(filepath.Join(dir, tt.path), os.Getuid(), &perm)
		if err == nil {
			d.Close()
		}
		if (err == nil) != tt.ok || !tt.ok && !errors.Is(err, ErrLink) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
	if names, err := filepath.Glob(filepath.Join(dir, "victim/*")); err != nil || len(names) != 1 {
		t.Errorf("in the directory that links lead to: %q, %v", names, err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "own/a/b")); err != nil || fi.Mode().Perm() != perm {
		t.Errorf("%v, %v", fi, err)
	}
}

// Another user than root has no rights that a link could misuse.
func TestNotRoot(t *testing.T) {
	dir := tree(t)
	perm := fs.FileMode(0o755)
	path := filepath.Join(dir, "shared/link/made")
	d, err := open(path, 1, &perm)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if fi, err := os.Stat(path); d.Path != path || err != nil || !fi.IsDir() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestRemove(t *testing.T) {
	testutil.NeedRoot(t)
	dir := tree(t)
	err := errors.Join(os.WriteFile(filepath.Join(dir, "victim/file"), nil, 0o644), os.WriteFile(filepath.Join(dir, "shared/own/file"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(filepath.Join(dir, "shared/link/file")); !errors.Is(err, ErrLink) {
		t.Errorf("below a link: %v", err)
	}
	if err := Remove(filepath.Join(dir, "shared/own/file")); err != nil {
		t.Error(err)
	}
	if err := Remove(filepath.Join(dir, "shared/link")); err != nil {
		t.Errorf("the link itself: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "victim/file")); err != nil {
		t.Error(err)
	}
}

// In a user namespace that lacks the owner of a directory, that is no other user of it.
func TestInMap(t *testing.T) {
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"         0          0 4294967295\n", true},
		{"         0       1000          1\n", false},
		{"         0       1000          1\n         1     100000      65536\n", true},
		{"         0     100000      65534\n", false},
		{"garbage\n", true},
		{"", false},
	} {
		if got := inMap(tt.text, overflowUID); got != tt.want {
			t.Errorf("%q: %v", tt.text, got)
		}
	}
}
