package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	const sparse = 1 << 40 // bytes
	if err := errors.Join(
		os.WriteFile(path("file"), []byte("12345"), 0o600),
		os.Symlink("file", path("link")),
		syscall.Mkfifo(path("fifo"), 0o600),
		os.WriteFile(path("sparse"), nil, 0o600), os.Truncate(path("sparse"), sparse),
		os.Symlink("/dev/zero", path("zero")), os.Symlink(os.DevNull, path("null")),
	); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		limit int64
		want  string
		err   error
	}{
		{"file", 5, "12345", nil},
		{"link", 5, "12345", nil},
		{"file", 4, "", ErrTooLong},
		{"sparse", 5, "", ErrTooLong},
		{"fifo", 5, "", errNotRegular}, // os.Open would block
		{"zero", 5, "", errNotRegular},
		{"null", 5, "", nil},
		{".", 5, "", errNotRegular},
		{"missing", 5, "", fs.ErrNotExist},
	} {
		got, err := ReadFile(path(tt.name), tt.limit)
		if !errors.Is(err, tt.err) || string(got) != tt.want {
			t.Errorf("%s, at most %d bytes: got %q, %v; want %q, %v", tt.name, tt.limit, got, err, tt.want, tt.err)
		}
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "b"), nil, 0o600), syscall.Mkfifo(filepath.Join(dir, "a"), 0o600)); err != nil {
		t.Fatal(err)
	}
	list, err := ReadDir(dir)
	if err != nil || len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "b" {
		t.Errorf("got %v, %v", list, err)
	}
	if list, err := ReadDir(filepath.Join(dir, "a")); !errors.Is(err, syscall.ENOTDIR) { // os.ReadDir would block
		t.Errorf("a FIFO: got %v, %v", list, err)
	}
}
