package sysfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAbsent(t *testing.T) {
	kinds := map[string]Kind{"process": Process, "label": Label, "kernel": Kernel, "link": Link}
	for errno, want := range map[error][]string{
		syscall.ENOENT:     {"process", "label", "kernel", "link"},
		syscall.ESRCH:      {"process", "label"},
		syscall.ENODEV:     {"kernel", "link"},
		syscall.EOPNOTSUPP: {"kernel", "link"},
		syscall.EINVAL:     {"label", "link"},
		syscall.EIO:        nil,
		syscall.EACCES:     nil,
		syscall.EPERM:      nil,
		syscall.EFBIG:      nil,
		fs.ErrClosed:       nil,
		nil:                nil,
	} {
		t.Run(fmt.Sprint(errno), func(t *testing.T) {
			for name, kind := range kinds {
				is := false
				for _, w := range want {
					is = is || w == name
				}
				if kind.Absent(errno) != is {
					t.Errorf("%s: %v", name, !is)
				}
				if errno != nil && kind.Absent(&fs.PathError{Op: "read", Err: errno}) != is {
					t.Errorf("%s: a wrapped error is %v", name, !is)
				}
			}
		})
	}
}

// Speed and duplex that the kernel does not know are told from other failures.
func TestDeviceAbsent(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "eth0"), 0o777); err != nil {
		t.Fatal(err)
	}
	for file, target := range map[string]string{"speed": "/proc/self/mem", "duplex": "/proc/self/mem/x"} { // EIO, ENOTDIR
		if err := os.Symlink(target, filepath.Join(dir, "eth0", file)); err != nil {
			t.Fatal(err)
		}
	}
	d := (&Reader{Root: dir}).Device("/", "eth0")
	for file, want := range map[string]bool{"speed": false, "duplex": false, "none": true} {
		if b := d.Value(file); len(b) > 0 || d.Absent(file, Link) != want {
			t.Errorf("%s is %q, absent: %v", file, b, !want)
		}
	}
}
