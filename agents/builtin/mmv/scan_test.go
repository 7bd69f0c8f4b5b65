package mmv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// What is no regular file is not opened, and links to files are followed.
func TestSpecialFiles(t *testing.T) {
	testutil.CheckLeaks(t)
	dir, other := t.TempDir(), t.TempDir()
	one(1).Write(t, other, "target")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	must(os.Symlink("fifo", filepath.Join(dir, "tofifo")))
	must(os.Symlink("nothing", filepath.Join(dir, "dangling")))
	must(os.Symlink("loop", filepath.Join(dir, "loop")))
	must(os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	must(os.Mkdir(filepath.Join(dir, "dir"), 0o755))
	must(os.Symlink(filepath.Join(other, "target"), filepath.Join(dir, "link")))
	c := newClient(t, dir)
	if got := fmt.Sprint(c.names()); got != "[mmv.link.m]" {
		t.Error(got)
	}
	id := c.id("mmv.link.m")
	// The target becomes another file, which does not change the directory; and then a FIFO.
	one(2).Write(t, other, "target")
	if got := c.values(id)[0]; got != "2" {
		t.Error(got)
	}
	must(os.Remove(filepath.Join(other, "target")))
	must(syscall.Mkfifo(filepath.Join(other, "target"), 0o644))
	if got := c.values(id)[0]; got != pdu.ErrnoPMID.Error() {
		t.Error(got)
	}
	if n := strings.Count(c.log.String(), "\n"); n != 1 || !strings.Contains(c.log.String(), "loop: ") {
		t.Errorf("%d lines: %s", n, &c.log)
	}
}

// More files than there are clusters, with few descriptors.
func TestManyFiles(t *testing.T) {
	testutil.CheckLeaks(t)
	dir := t.TempDir()
	for i := range maxFiles + 1 {
		one(i).Write(t, dir, fmt.Sprintf("f%04d", i))
	}
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.control.files": fmt.Sprint(maxFiles), "mmv.control.reload": "0"})
	var ids []pdu.PMID
	for i := range maxFiles {
		ids = append(ids, pdu.NewPMID(70, i+1, 1))
	}
	for i, got := range c.values(ids...) {
		if got != fmt.Sprint(i) {
			t.Fatalf("%v is %s", ids[i], got)
		}
	}
	if n := strings.Count(c.log.String(), "too many files"); n != 1 {
		t.Errorf("%d lines: %.500s", n, &c.log)
	}
	if err := os.Remove(filepath.Join(dir, "f0000")); err != nil {
		t.Fatal(err)
	}
	c.want(map[string]string{"mmv.control.files": fmt.Sprint(maxFiles), "mmv.f4095.m": "4095"})
}

// An agent whose user may not read a file says so once.
func TestUnreadable(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	dir := t.TempDir()
	path := one(1).Write(t, dir, "f")
	one(2).Write(t, dir, "g")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.g.m": "2", "mmv.control.files": "1"})
	one(3).Write(t, dir, "h")
	c.want(map[string]string{"mmv.h.m": "3"})
	if n := strings.Count(c.log.String(), "permission denied"); n != 1 {
		t.Errorf("%d lines: %s", n, &c.log)
	}
}
