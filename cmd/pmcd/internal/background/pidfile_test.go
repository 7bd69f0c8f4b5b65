package background

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
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

// Root follows no link to the directory that another user can have made.
func TestLinkedDirectory(t *testing.T) {
	path := filepath.Join(testutil.LinkedDir(t), "file")
	if err := WritePIDFile(path); err == nil {
		t.Error("the PID file was written")
	}
	if f, err := openReport(path); err == nil {
		f.Close()
		t.Error("the file of -x was written")
	}
}

// Root replaces what another user can have put in the place of the file of -x.
func TestLinkedReport(t *testing.T) {
	testutil.NeedRoot(t)
	dir := testutil.SharedDir(t)
	victim, shared := filepath.Join(dir, "victim"), filepath.Join(dir, "shared")
	err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Mkdir(shared, 0o755), os.Chown(shared, 1, 1),
		os.Symlink(victim, filepath.Join(shared, "symbolic")), os.Link(victim, filepath.Join(shared, "hard")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"symbolic", "hard", "new"} {
		f, err := openReport(filepath.Join(shared, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.WriteString("report")
		f.Close()
		if text := pmcdtest.Read(filepath.Join(shared, name)); text != "report" {
			t.Errorf("%s has %q", name, text)
		}
	}
	if text := pmcdtest.Read(victim); text != "precious" {
		t.Errorf("what links lead to has %q", text)
	}
}

// What another user has put in the place of the log is not copied to the file of -x.
func TestReplacedLog(t *testing.T) {
	dir := t.TempDir()
	path, report := filepath.Join(dir, "log"), filepath.Join(dir, "report")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.WriteString("why\n")
	out := &logging.File{Output: log, Opened: true, Path: path}
	(*Launcher)(nil).ReportFailure(errors.New("it failed"), report, out)
	if text := pmcdtest.Read(report); !strings.HasSuffix(text, "contains ...\nwhy\n") {
		t.Errorf("the log: %q", text)
	}
	secret := filepath.Join(dir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Remove(path), os.Symlink(secret, path)); err != nil {
		t.Fatal(err)
	}
	(*Launcher)(nil).ReportFailure(errors.New("it failed"), report, out)
	if text := pmcdtest.Read(report); !strings.HasSuffix(text, "!  it failed\n") {
		t.Errorf("a link: %q", text)
	}
}

// Root does not wait for the reader of a FIFO that another user has put in the place of the file of -x.
func TestReportToFIFO(t *testing.T) {
	testutil.NeedRoot(t)
	dir := filepath.Join(testutil.SharedDir(t), "shared")
	path := filepath.Join(dir, "fifo")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 1, 1), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := openReport(path); !errors.Is(err, syscall.ENXIO) {
		f.Close()
		t.Errorf("a FIFO without a reader: %v", err)
	}
}
