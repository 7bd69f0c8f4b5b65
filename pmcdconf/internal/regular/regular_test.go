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
	if err := os.WriteFile(path("file"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		limit int64
		want  string
		err   error
	}{
		{"file", 5, "12345", nil},
		{"file", 4, "", errTooLong},
		{"fifo", 5, "", errNotRegular}, // os.Open would block
		{".", 5, "", errNotRegular},
		{"missing", 5, "", fs.ErrNotExist},
	} {
		got, err := ReadFile(path(tt.name), tt.limit)
		if !errors.Is(err, tt.err) || err == nil && string(got) != tt.want {
			t.Errorf("%s, at most %d bytes: got %q, %v; want %q, %v", tt.name, tt.limit, got, err, tt.want, tt.err)
		}
	}
}
