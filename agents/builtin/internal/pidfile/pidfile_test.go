package pidfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Each case is an entry of a directory; want is its content, or the error after its path.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	const notSmall = ": not a regular file of less than 8 bytes"
	for _, tt := range []struct {
		name       string
		make       func(path string) error
		want, fail string
	}{
		{"a small file", file("1234567"), "1234567", ""},
		{"an empty file", file(""), "", ""},
		{"a file as large as the buffer", file("12345678"), "", notSmall},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o755) }, "", notSmall},
		{"a FIFO without a writer", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "", notSmall},
		{"a link to a file", func(path string) error { return os.Symlink("a small file", path) }, "", ": too many levels of symbolic links"},
		{"no file", func(string) error { return nil }, "", ": no such file or directory"},
	} {
		path := filepath.Join(dir, tt.name)
		if err := tt.make(path); err != nil {
			t.Fatal(err)
		}
		b, err := Read(path, make([]byte, 8))
		if tt.fail == "" && (err != nil || string(b) != tt.want) || tt.fail != "" && (err == nil || !strings.HasSuffix(err.Error(), path+tt.fail)) {
			t.Errorf("%s: %q, %v; want %q, %s", tt.name, b, err, tt.want, tt.fail)
		}
	}
	// Its size is 0, and the file is larger.
	if b, err := Read("/proc/self/stat", make([]byte, 8)); err == nil || err.Error() != "/proc/self/stat"+notSmall {
		t.Errorf("/proc/self/stat: %q, %v", b, err)
	}
	names, err := Names(dir, 100)
	slices.Sort(names)
	if want := "a FIFO without a writer,a directory,a file as large as the buffer,a link to a file,a small file,an empty file"; strings.Join(names, ",") != want || err != nil {
		t.Errorf("names %q, %v, want %s", names, err, want)
	}
	if names, err := Names(dir, 2); len(names) != 2 || err != nil {
		t.Errorf("at most two names: %q, %v", names, err)
	}
	if names, err := Names(filepath.Join(dir, "x"), 2); len(names) != 0 || err == nil {
		t.Errorf("no directory: %q, %v", names, err)
	}
}

func file(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int32{
		"1": 1, "2147483647": 2147483647, "2147483648": 0, "0": 0, "-1": 0, "+1": 0, "01": 0, " 1": 0, "1 ": 0, "": 0, "1x": 0, "x": 0,
	} {
		if got := Parse(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestAlive(t *testing.T) {
	for pid, want := range map[int32]bool{int32(os.Getpid()): true, 1: true, 2147483647: false} {
		if got := Alive(pid); got != want {
			t.Errorf("%d: %v, want %v", pid, got, want)
		}
	}
}
