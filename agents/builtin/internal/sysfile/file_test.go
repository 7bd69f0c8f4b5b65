package sysfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A file of /proc stays open, a recorded file does not.
func TestFile(t *testing.T) {
	for _, tt := range []struct {
		path string
		kept bool
	}{{"/proc/self/stat", true}, {"/proc/cpuinfo", true}, {"file_test.go", false}} {
		f := NewFile(tt.path)
		want, err := os.ReadFile(tt.path)
		if err != nil {
			testutil.Missing(t, err)
		}
		for range 2 {
			got, err := f.Read()
			// The first words of these files do not change.
			if err != nil || len(got) == 0 || string(got[:4]) != string(want[:4]) || got[len(got)-1] != '\n' {
				t.Errorf("%s: %q, %v", tt.path, got, err)
			}
			if (f.fd >= 0) != tt.kept {
				t.Errorf("%s: open is %v", tt.path, f.fd >= 0)
			}
		}
		f.Close()
	}
}

// Files with one piece, with several in a page, and with more than a page.
func TestNeverBlocks(t *testing.T) {
	for _, tt := range []struct {
		path  string
		piece int
	}{{"/proc/loadavg", 0}, {"/proc/self/stat", 0}, {"/proc/net/dev", 400}, {"/proc/vmstat", 64}} {
		f := NewFile(tt.path).NeverBlocks(tt.piece)
		for range 3 {
			want, err := os.ReadFile(tt.path)
			if err != nil {
				testutil.Missing(t, err)
			}
			got, err := f.Read()
			if lines := strings.Count(string(got), "\n"); err != nil || lines != strings.Count(string(want), "\n") || len(got) == 0 {
				t.Errorf("%s: %d lines of %d, %v", tt.path, lines, strings.Count(string(want), "\n"), err)
			}
			if f.raw != (strconv.IntSize == 64) {
				t.Errorf("%s: raw is %v", tt.path, f.raw)
			}
		}
		f.Close()
	}
}

func TestFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := NewFile(path).NeverBlocks(0) // has no effect outside /proc
	defer f.Close()
	for _, text := range []string{"", strings.Repeat("x", 4096), strings.Repeat("y", 10000), "z", ""} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read(); err != nil || string(got) != text {
			t.Errorf("read %d bytes, %v, want %d", len(got), err, len(text))
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.Close() // with its size of 0 it was taken for a file of /proc
	if got, err := f.Read(); got != nil || err != nil {
		t.Errorf("a removed file: %q, %v", got, err)
	}
}

// A File opens its file again if reads of the descriptor fail.
func TestFileIsOpenedAgain(t *testing.T) {
	f := NewFile("/proc/self/stat")
	defer f.Close()
	if _, err := f.Read(); err != nil {
		testutil.Missing(t, err)
	}
	syscall.Close(f.fd)
	if got, err := f.Read(); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
	syscall.Close(f.fd)
	began, lines := 0, 0
	if err := f.Lines(func() { began++ }, func([]byte) error { lines++; return nil }); err != nil || began != 2 || lines != 1 {
		t.Errorf("%d lines, begun %d times, %v", lines, began, err)
	}
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := NewFile(path)
	long := strings.Repeat("x", MaxLine-1)
	for _, tt := range []struct {
		text, want string
		err        error
	}{
		{"", "", nil},
		{"a\n\nb\n", "a||b|", nil},
		{"a\nb", "a|b|", nil},
		{long + "\n" + long + "\n", long + "|" + long + "|", nil},
		{"a\n" + long + "xx", "a|", syscall.EFBIG},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o666); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := f.Lines(func() { got = "" }, func(b []byte) error { got += string(b) + "|"; return nil }); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%.20q: %d bytes %.20q, %v, want %d", tt.text, len(got), got, err, len(tt.want))
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Lines(func() {}, func(b []byte) error { return fmt.Errorf("a removed file has %q", b) }); err != nil {
		t.Error(err)
	}
}

func TestNotRegularOrTooLarge(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o666), os.WriteFile(large, nil, 0o666), os.Truncate(large, MaxFile+1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/zero"} {
		if b, err := (NewFile(path)).Read(); err == nil || b != nil {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if b, err := NewFile(large).Read(); !errors.Is(err, syscall.EFBIG) || b != nil {
		t.Errorf("a large file: %d bytes, %v", len(b), err)
	}
}
