package background

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// Others may write to the directory of the PID file.
func TestPIDFile(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "pmcd.pid"), filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, path)); err != nil {
		t.Fatal(err)
	}
	if err := WritePIDFile(path); err != nil {
		t.Fatal(err)
	}
	if text := pmcdtest.Read(victim); text != "precious" {
		t.Errorf("what it was a link to has %q", text)
	}
	if fi, err := os.Lstat(path); err != nil || fi.Mode() != 0o444 || pmcdtest.Read(path) != strconv.Itoa(os.Getpid()) {
		t.Errorf("the PID file is %v with %q, %v", fi.Mode(), pmcdtest.Read(path), err)
	}
	os.Remove(path)
	os.Mkdir(path, 0o755)
	os.WriteFile(filepath.Join(path, "x"), nil, 0o644)
	if err := WritePIDFile(path); err == nil {
		t.Error("a directory is no obstacle")
	}
	RemovePIDFile(victim, nil) // it is not that of this process
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
}
