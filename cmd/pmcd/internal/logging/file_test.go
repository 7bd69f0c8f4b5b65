package logging

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is not a file stays where it is and what it is.
func TestCreateLog(t *testing.T) {
	const null = 1<<8 | 3 // the device
	made := func(what func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := what(path); errors.Is(err, fs.ErrPermission) {
				t.Skip(err) // only root makes devices
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
			f, err := createLog(path)
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
