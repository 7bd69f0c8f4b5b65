package linux

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The next fetch sees a file system that was mounted or unmounted, though the file is read
// only if the kernel reports a change. The kernel reports none for a file system that becomes
// read-only by itself, or by a mount elsewhere, so filesys.readonly always reads the file. The
// test needs a mount name space of its own.
func TestMountsChange(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}) {
		return
	}
	testutil.NeedProgram(t, "unshare")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args, err, out)
		}
	}
	run("mount", "--make-rprivate", "/")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := newFilesystems(newHost(60, Options{}))
	// Not those of process 1, of which this process has a copy.
	f.file, f.reached = f.h.file("proc/self/mounts"), nil
	find := func(s *pmda.Source) (found *filesystem) {
		t.Helper()
		if err := s.Read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		f.tmpfs.Each(func(_ int32, _ string, data any) bool {
			if d := data.(*filesystem); d.mount == dir {
				found = d
			}
			return true
		})
		return found
	}
	if find(f.source) != nil {
		t.Fatalf("%s is a mount point", dir)
	}
	// The host can change the mounts of each name space, when it removes mount points.
	testutil.Eventually(t, "no mount changes, and the file does not", func() bool { find(f.source); return f.file.Unchanged() })
	run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir)
	if find(f.source) == nil {
		t.Fatal("the next read does not see what was mounted")
	}
	elsewhere := func(options string) {
		t.Helper()
		run("unshare", "--mount", "--propagation", "private", "mount", "-o", options, dir)
	}
	testutil.Eventually(t, "the file is not read without a change", func() bool {
		elsewhere("remount,rw")
		find(f.always)
		elsewhere("remount,ro")
		d := find(f.source)
		return d != nil && !d.readonly
	})
	if d := find(f.always); d == nil || !d.readonly {
		t.Errorf("the file was not read again: %+v", d)
	}
	run("umount", dir)
	if find(f.source) != nil {
		t.Error("the next read does not see what was unmounted")
	}
}

// A call of statfs(2) in the fetch itself must not wait: not for a server or a process, also
// not for one that is asked on the way to the mount point.
func TestStatfsInMemory(t *testing.T) {
	f := newFilesystems(newHost(60, Options{}))
	f.reached = nil
	f.parse([]byte("/dev/a / ext4 rw 0 0\n" +
		"tmpfs /run tmpfs rw 0 0\n" +
		"/dev/b /b xfs rw 0 0\n" +
		"/dev/c /b/c ext2 rw 0 0\n" +
		"host:/x /remote nfs4 rw 0 0\n" +
		"/dev/d /remote/d ext4 rw 0 0\n" +
		"/dev/e /remote2 ext3 rw 0 0\n" +
		"/dev/g /blank\\040/g ext4 rw 0 0\n" +
		"y /blank\\040 fuse.y rw 0 0\n"))
	want := map[string]bool{
		"/dev/a": true, "/run": true, "/dev/b": false, "/dev/c": true, "/dev/d": false, "/dev/e": true, "/dev/g": false,
	}
	n := 0
	for _, s := range []*instances[filesystem]{f.devices, f.tmpfs} {
		s.Each(func(_ int32, name string, data any) bool {
			n++
			if d := data.(*filesystem); d.inMemory != want[name] {
				t.Errorf("%s, %s at %s: %t", name, d.typ, d.mount, d.inMemory)
			}
			return true
		})
	}
	if n != len(want) {
		t.Errorf("%d file systems, want %d", n, len(want))
	}
	// The mount points of another process may be other directories in this one.
	f.reached = newReachedMounts(f.h, "proc/1")
	f.parse(append(f.text, "/dev/a / ext4 rw 0 0\n"...))
	if f.devices.get("/dev/a").inMemory {
		t.Error("mounts of another process: statfs(2) is taken not to wait")
	}
	for p, dir := range map[string]string{"/a/b": "/a", "/a": "/a", "/x": "/"} {
		if !isBelow(p, dir) {
			t.Errorf("%s is not below %s", p, dir)
		}
	}
	if isBelow("/ab", "/a") || isBelow("/", "/a") {
		t.Error("a name that only begins in the same way is below")
	}
}
