package inroot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// what describes what f opens: a file by its inode, or the error.
func what(dir int, path string, nofollow bool, open func(int, string, bool) (int, error)) string {
	fd, err := open(dir, path, nofollow)
	if err != nil {
		return err.Error()
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d:%d mode %o", st.Dev, st.Ino, st.Mode)
}

// Walk opens what openat2 opens, and nothing outside the directory.
func TestWalk(t *testing.T) {
	testutil.CheckLeaks(t)
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, "in", name) }
	for _, dir := range []string{"in/a/b", "in/etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"out", "in/file", "in/a/b/deep", "in/etc/name"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"rel": "a/b/deep", "abs": "/file", "up": "../../../out", "absup": "/../../out", "dir": "a/b", "absdir": "/a",
		"a/back": "../file", "a/b/two": "../../abs", "loop": "loop", "dangling": "/nowhere", "out": filepath.Join(root, "out"),
		"rootlink": "/", "dot": ".", "chain": "/absdir/back", "slash": "/file/", "proc": "/proc/self/fd/0", "long": strings.Repeat("./", 500) + "file",
	} {
		if err := os.Symlink(target, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := syscall.Open(in(""), unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	paths := strings.Fields(". .. / file /file a a/ a/b/deep rel abs up absup dir/deep absdir/b/deep a/back a/b/two loop dangling out rootlink " +
		"rootlink/file dot/file chain file/x slash proc long nosuch a/../file a/../../out ../out etc/name a//b/./deep absdir dir rootlink/..")
	for _, path := range append(paths, "", strings.Repeat("x", 300)) {
		for _, nofollow := range []bool{false, true} {
			want := what(fd, path, nofollow, Open) // with openat2, where the kernel has it
			got := what(fd, path, nofollow, walk)
			if got != want {
				t.Errorf("%.50q, nofollow %v: got %s, want %s", path, nofollow, got, want)
			}
			for _, errno := range []syscall.Errno{syscall.ENOSYS, syscall.EPERM} {
				testutil.Refuse(t, errno, []uintptr{unix.SYS_OPENAT2}, func() { got = what(fd, path, nofollow, Open) })
				if got != want {
					t.Errorf("%.50q, nofollow %v, openat2 fails with %v: got %s, want %s", path, nofollow, errno, got, want)
				}
			}
		}
	}
	var out syscall.Stat_t
	if err := syscall.Stat(filepath.Join(root, "out"), &out); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if got := what(fd, path, false, walk); strings.Contains(got, fmt.Sprintf(":%d mode", out.Ino)) {
			t.Errorf("%s leads out", path)
		}
	}
}

// A path may have any number of parts, but not so many directories below each other that
// walk uses up descriptors.
func TestDepth(t *testing.T) {
	testutil.CheckLeaks(t)
	root := t.TempDir()
	deep := strings.Repeat("d/", maxDepth-1)
	if err := os.MkdirAll(filepath.Join(root, deep, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "d/f"} {
		if err := os.WriteFile(filepath.Join(root, deep, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := syscall.Open(root, unix.O_PATH|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(dir)
	for path, want := range map[string]error{
		deep + "f":                          nil,
		deep + "../d/f":                     nil,
		strings.Repeat("d/../", 1000) + "d": nil,
		deep + "d/f":                        syscall.ENAMETOOLONG,
	} {
		fd, err := walk(dir, path, false)
		if err != want && (want != nil || err != nil) {
			t.Errorf("%.20q... of %d bytes: got %v, want %v", path, len(path), err, want)
		}
		if err == nil {
			syscall.Close(fd)
		}
	}
}

// A path with ".." is opened while others rename their files, for which the kernel
// fails with EAGAIN.
func TestRenamedMeanwhile(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"in", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := syscall.Open(root, unix.O_PATH|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(dir)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, to := filepath.Join(root, "elsewhere"), filepath.Join(root, "other")
		for {
			select {
			case <-end:
				return
			default:
				_ = os.Rename(from, to)
				from, to = to, from
			}
		}
	}()
	defer func() { close(end); <-ended }()
	for range 20000 {
		fd, err := Open(dir, strings.Repeat("in/../", 20)+"in", false)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
	}
}

// A file that may not be opened is not opened in another way. A call that fails with another error
// than a missing call is not tried again.
func TestNotPermitted(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	dir, err := syscall.Open(root, unix.O_PATH|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(dir)
	for _, tt := range []struct {
		path  string
		errno syscall.Errno // of openat2; 0 if it is there
		want  string
	}{
		{"closed/file", 0, syscall.EACCES.Error()},
		{"closed/file", syscall.EPERM, syscall.EACCES.Error()},
		{".", syscall.EACCES, syscall.EACCES.Error()},
		{".", syscall.EMFILE, syscall.EMFILE.Error()},
	} {
		got := what(dir, tt.path, false, Open)
		if tt.errno != 0 {
			testutil.Refuse(t, tt.errno, []uintptr{unix.SYS_OPENAT2}, func() { got = what(dir, tt.path, false, Open) })
		}
		if got != tt.want {
			t.Errorf("%s, openat2 fails with %q: got %s, want %s", tt.path, tt.errno, got, tt.want)
		}
	}
}
