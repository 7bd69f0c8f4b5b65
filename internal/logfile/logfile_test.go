package logfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// What is not a file stays where it is and what it is.
func TestOpen(t *testing.T) {
	const null = 1<<8 | 3 // the device
	made := func(what func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := what(path); errors.Is(err, fs.ErrPermission) {
				testutil.Missing(t, err) // only root makes devices
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(to string) func(*testing.T, string) {
		return made(func(path string) error { return os.Symlink(to, path) })
	}
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, path string)
		moved bool
		err   string
	}{
		{name: "nothing", make: func(*testing.T, string) {}},
		{name: "file", make: made(func(path string) error { return os.WriteFile(path, []byte("old"), 0o666) }), moved: true},
		{name: "device", make: made(func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o666, null) })},
		{name: "FIFO without reader", make: made(func(path string) error { return syscall.Mkfifo(path, 0o666) }), err: "no such device or address"},
		{name: "directory", make: made(func(path string) error { return os.Mkdir(path, 0o777) }), err: "neither a file nor a FIFO nor a device for characters"},
		{name: "link to the null device", make: link("/dev/null")},
		{name: "link to the output", make: link("/proc/self/fd/2")},
		{name: "link to another device", make: link("/dev/zero"), err: "a link to what is not a file"},
		{name: "link to a directory", make: link("."), err: "a link to what is not a file"},
		{name: "link to a file", make: link("other"), moved: true},
		{name: "link to nothing", make: link("none"), moved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "log"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("not for us"), 0o666); err != nil {
				t.Fatal(err)
			}
			tt.make(t, path)
			before, _ := os.Lstat(path)
			f, err := Open(path)
			switch {
			case err == nil && tt.err == "":
				defer f.Close()
			case err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err):
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if before != nil && !tt.moved {
				if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
					t.Errorf("it was %v and is %v, %v", before.Mode(), after, err)
				}
			}
			prev, err := os.Lstat(path + ".prev")
			if tt.moved != (err == nil) || tt.moved && !os.SameFile(before, prev) {
				t.Errorf("the file before: %v, %v", prev, err)
			}
			if tt.moved {
				if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() != 0 {
					t.Errorf("the new file: %v, %v", fi, err)
				}
			}
			if b, _ := os.ReadFile(other); string(b) != "not for us" {
				t.Errorf("another file has %q", b)
			}
		})
	}
}

func TestTheFileBeforeIsKept(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"one", "two", "three"} {
		f, err := Open(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text)
		f.Close()
	}
	for name, want := range map[string]string{"log": "three", "log.prev": "two"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", name, b, err, want)
		}
	}
	if _, err := Open(filepath.Join(dir, "no", "log")); err == nil || err.Error() != "no such file or directory" {
		t.Errorf("missing directory: %v", err)
	}
}

// Root follows the link of another user only to what is safe to write to.
func TestLinksOfAnotherUser(t *testing.T) {
	for _, tt := range []struct {
		to     string
		device bool
		err    string
	}{
		{to: os.DevNull, device: true},
		{to: "/dev/zero", err: "a link to what is not a file"},
		{to: "/etc/passwd"}, // moved
	} {
		link := filepath.Join(t.TempDir(), "log")
		if err := os.Symlink(tt.to, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(link, 65534, -1); err != nil {
			testutil.Missing(t, err)
		}
		f, err := Open(link)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v, want %s", tt.to, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		f.Close()
		if err != nil || st.Mode().IsRegular() == tt.device || !tt.device && st.Size() > 0 {
			t.Errorf("%s: %v of %d bytes, %v", tt.to, st.Mode(), st.Size(), err)
		}
	}
}

func TestAFIFOWithAReaderIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("text")
	f.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "text" {
		t.Errorf("got %q, %v", b, err)
	}
}

// Root follows no link to the directory that another user can have made.
func TestLinkedDirectory(t *testing.T) {
	if f, err := Open(filepath.Join(testutil.LinkedDir(t), "log")); err == nil {
		f.Close()
		t.Error("the log was opened")
	}
}
