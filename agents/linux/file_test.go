package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file of /proc stays open; one that is recorded does not.
func TestFile(t *testing.T) {
	for _, tt := range []struct {
		path string
		kept bool
	}{{"/proc/self/stat", true}, {"/proc/cpuinfo", true}, {"testdata/vm/proc/stat", false}} {
		f := &file{path: tt.path}
		want, err := os.ReadFile(tt.path)
		if err != nil {
			t.Skip(err)
		}
		for range 2 {
			got, err := f.read()
			// The first words of these do not change.
			if err != nil || len(got) == 0 || string(got[:4]) != string(want[:4]) || got[len(got)-1] != '\n' {
				t.Errorf("%s: %q, %v", tt.path, got, err)
			}
			if (f.f != nil) != tt.kept {
				t.Errorf("%s: open is %v", tt.path, f.f != nil)
			}
		}
		f.close()
	}
}

func TestFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := &file{path: path}
	defer f.close()
	for _, text := range []string{"", strings.Repeat("x", 4096), strings.Repeat("y", 10000), "z", ""} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := f.read(); err != nil || string(got) != text {
			t.Errorf("read %d bytes, %v, want %d", len(got), err, len(text))
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.close() // it had no size, as if of /proc
	if got, err := f.read(); got != nil || err != nil {
		t.Errorf("a file that is gone: %q, %v", got, err)
	}
}

// A descriptor that fails is not the end of the file.
func TestFileIsOpenedAgain(t *testing.T) {
	f := &file{path: "/proc/self/stat"}
	defer f.close()
	if _, err := f.read(); err != nil {
		t.Skip(err)
	}
	f.f.Close()
	if got, err := f.read(); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o666), os.WriteFile(large, nil, 0o666), os.Truncate(large, maxFile+1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/zero"} {
		if b, err := (&file{path: path}).read(); err == nil || b != nil {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if b, err := (&file{path: large}).read(); !errors.Is(err, syscall.EFBIG) || b != nil {
		t.Errorf("a large file: %d bytes, %v", len(b), err)
	}
}

func TestSysReader(t *testing.T) {
	root := newTree(t, map[string]string{
		"sys/a/number": " 42 kB\n", "sys/a/text": "x y\n", "sys/a/nothing": "", "secret": "1\n", "sys/a/large": strings.Repeat("7", 5000),
	})
	if err := syscall.Mkfifo(filepath.Join(root, "sys/a/fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := &sysReader{root: root}
	for _, tt := range []struct {
		path   []string
		text   string
		exists bool
	}{
		{[]string{"sys", "a", "number"}, "42 kB", true},
		{[]string{"sys", "a", "text"}, "x y", true},
		{[]string{"sys", "a", "nothing"}, "", true},
		{[]string{"sys", "a", "fifo"}, "", true},
		{[]string{"sys", "a", "large"}, strings.Repeat("7", 4096), true},
		{[]string{"sys", "a", "none"}, "", false},
		{[]string{"sys", "a"}, "", true}, // a directory
		{[]string{"sys", "..", "secret"}, "", false},
		{[]string{"sys", "../secret"}, "", false},
		{[]string{"sys", ".", "a", "text"}, "", false},
		{[]string{"sys", "", "a"}, "", false},
		{[]string{"sys", "a", "text\x00x"}, "", false},
		{[]string{"sys", "a", strings.Repeat("n", 5000)}, "", false},
	} {
		if got := string(r.read(tt.path...)); got != tt.text {
			t.Errorf("%.80q: %.80q, want %.80q", tt.path, got, tt.text)
		}
		if got := r.exists(tt.path...); got != tt.exists {
			t.Errorf("%.80q: exists is %v", tt.path, got)
		}
	}
	if n, ok := r.number("sys", "a", "number"); n != 42 || !ok {
		t.Errorf("number is %d, %v", n, ok)
	}
	if n, ok := r.number("sys", "a", "text"); n != 0 || ok {
		t.Errorf("a text is the number %d, %v", n, ok)
	}
}
