package linux

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// mountOf returns the mount that a path of this process leads to.
func mountOf(t testing.TB, path string) (id uint64, s mountSource) {
	t.Helper()
	fd, err := syscall.Open(path, unix.O_PATH|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	own := &mountTable{file: sysfile.NewFile("/proc/self/mountinfo")}
	defer own.file.Close()
	if err := own.refresh(newHost(60, Options{})); err != nil {
		t.Fatal(err)
	}
	id = mountID(fd)
	s, ok := own.byID[id]
	if old := fdinfoMountID(fd); !ok || old != id {
		t.Fatalf("%s is in mount %d by statx(2) and %d by fdinfo, of %v", path, id, old, own.byID)
	}
	return id, s
}

// writeMountinfo writes the mountinfo of a process of the tree. All lines of its file of
// mounts are those of what path leads to.
func writeMountinfo(t testing.TB, root, process, path string) {
	t.Helper()
	mounts, err := os.ReadFile(filepath.Join(root, process, "mounts"))
	if err != nil {
		t.Fatal(err)
	}
	id, s := mountOf(t, path)
	var text strings.Builder
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Split(line, " "); len(f) > 3 {
			fmt.Fprintf(&text, "%d 1 %s %s %s rw shared:1 master:2 - %s %s rw\n", id, s.device, s.root, f[1], f[2], f[0])
		}
	}
	pmdatest.WriteFile(t, root, process+"/mountinfo", text.String())
}

// Composed tables of mounts: those of the host, and those of a container that has some of
// them below /host. The path /host/MOUNT leads to a mount of the container.
func TestMountTables(t *testing.T) {
	const (
		ext4 = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n" +
			"60 27 254:0 /data/srv /srv rw shared:1 - ext4 /dev/vda1 rw\n" +
			"61 27 8:16 / /with\\040blank rw shared:7 master:3 propagate_from:2 - xfs /dev/sdb rw\n" +
			"62 27 0:23 / /dev/shm rw - tmpfs tmpfs rw\n" +
			"63 62 0:27 / /dev/shm rw - tmpfs tmpfs rw\n" +
			"64 27 8:32 / /covered rw - ext4 /dev/sdc rw\n" +
			"65 64 0:28 / /covered rw - fuse.x x rw\n"
		btrfs = "27 1 0:34 /@ / rw,relatime shared:1 - btrfs /dev/vda2 rw,subvolid=256,subvol=/@\n" +
			"60 27 0:34 /@/.snapshots /.snapshots rw shared:2 - btrfs /dev/vda2 rw,subvolid=257,subvol=/@/.snapshots\n" +
			"61 27 0:34 /@home /home rw shared:3 - btrfs /dev/vda2 rw,subvolid=258,subvol=/@home\n"
		overlay = "27 1 0:40 / / rw shared:1 - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c\n"
		box     = "500 400 0:55 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n" +
			"501 500 254:0 /var/lib/kubelet/pods/x/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"
	)
	for _, tt := range []struct {
		name, host, own    string
		device, typ, point string // as in the host's file of mounts
		id                 uint64 // to which the path leads
		want               string // a part of the reason why there is no value; "" if there is one
	}{
		{"only /proc and /sys are mounted", ext4, box, "/dev/vda1", "ext4", "/", 500, `"/host/" is in directory "/" of file system "0:55", not in directory "/" of file system "254:0"`},
		{"a file of the host that each container has", ext4, box, "/dev/vda1", "ext4", "/", 501, `not in directory "/"`},
		{"/ of the host", ext4, box + "510 500 254:0 / /host ro master:1 - ext4 /dev/vda1 rw\n", "/dev/vda1", "ext4", "/", 510, ""},
		{"bind mount", ext4, box + "511 510 254:0 /data/srv /host/srv ro - ext4 /dev/vda1 rw\n", "/dev/vda1", "ext4", "/srv", 511, ""},
		{"bind mount that is not in the container", ext4, box + "510 500 254:0 / /host ro - ext4 /dev/vda1 rw\n", "/dev/vda1", "ext4", "/srv", 510, `not in directory "/data/srv"`},
		{"blank and optional fields", ext4, box + "512 510 8:16 / /host/with\\040blank ro master:7 - xfs /dev/sdb rw\n", "/dev/sdb", "xfs", "/with\\040blank", 512, ""},
		{"file system that is not in the container", ext4, box + "510 500 254:0 / /host ro - ext4 /dev/vda1 rw\n", "/dev/sdb", "xfs", "/with\\040blank", 510, "not in"},
		{"another tmpfs", ext4, box + "513 510 0:70 / /host/dev/shm rw - tmpfs tmpfs rw\n", "tmpfs", "tmpfs", "/dev/shm", 513, "not in"},
		{"tmpfs on tmpfs: that which can be seen", ext4, box + "513 510 0:27 / /host/dev/shm rw - tmpfs tmpfs rw\n", "tmpfs", "tmpfs", "/dev/shm", 513, ""},
		{"tmpfs on tmpfs: that which is hidden", ext4, box + "513 510 0:23 / /host/dev/shm rw - tmpfs tmpfs rw\n", "tmpfs", "tmpfs", "/dev/shm", 513, "not in"},
		{"another file system hides it", ext4, box + "514 510 0:28 / /host/covered rw - fuse.x x rw\n", "/dev/sdc", "ext4", "/covered", 514, "not in"},
		{"no source", "66 27 0:29 / /run rw - tmpfs  rw\n", box + "510 500 0:29 / /host/run rw - tmpfs  rw\n", "", "tmpfs", "/run", 510, ""},
		{"btrfs", btrfs, box + "510 500 0:34 /@ /host ro - btrfs /dev/vda2 rw\n", "/dev/vda2", "btrfs", "/", 510, ""},
		{"btrfs: subvolume", btrfs, box + "511 510 0:34 /@home /host/home ro - btrfs /dev/vda2 rw\n", "/dev/vda2", "btrfs", "/home", 511, ""},
		{"btrfs: subvolume that is not in the container", btrfs, box + "510 500 0:34 /@ /host ro - btrfs /dev/vda2 rw\n", "/dev/vda2", "btrfs", "/home", 510, `not in directory "/@home"`},
		{"btrfs: another file system with such subvolumes", btrfs, box + "510 500 0:35 /@ /host ro - btrfs /dev/vda2 rw\n", "/dev/vda2", "btrfs", "/", 510, "not in"},
		{"overlay as / of the host", overlay, box + "510 500 0:40 / /host ro - overlay overlay rw\n", "overlay", "overlay", "/", 510, ""},
		{"overlay of the container", overlay, box, "overlay", "overlay", "/", 500, "not in"},
		{"mount that is not known", ext4, box, "/dev/vda1", "ext4", "/", 99, "does not list"},
		{"number of the mount is not known", ext4, box, "/dev/vda1", "ext4", "/", 0, "does not list"},
		{"mountinfo of the host cannot be read", "", box, "/dev/vda1", "ext4", "/", 500, "does not list it"},
		{"short lines", "27 1 254:0 / / rw shared:1\n27 1 254:0 / / rw - ext4\n27", box, "/dev/vda1", "ext4", "/", 500, "does not list it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := pmdatest.Tree(t, map[string]string{"proc/1/mountinfo": tt.host, "own": tt.own})
			h := newHost(60, Options{Root: root})
			m := newReachedMounts(h, "proc/1")
			m.own = &mountTable{file: h.file("own"), path: "own"}
			why, err := m.check(&filesystem{device: tt.device, typ: tt.typ, mount: tt.point, path: "/host" + tt.point}, tt.id)
			if err != nil || tt.want == "" && why != "" || !strings.Contains(why, tt.want) {
				t.Errorf("%q, %v, want %q", why, err, tt.want)
			}
		})
	}
}

// In a mount name space with /proc of the host at DIR/proc, as in the image, there are no
// values of what is at DIR by chance. If / of the host is there, too, there are those of
// its file systems, until another file system is mounted over one.
func TestReachedMounts(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}) {
		return
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || !strings.Contains(string(mounts), " /dev/shm tmpfs ") {
		testutil.Missing(t, "no tmpfs at /dev/shm, ", err)
	}
	testutil.Run(t, "mount", "--make-rprivate", "/")
	// Not in a directory that the test removes, with all that is in it: / will be mounted there.
	const dir, shm = "/mnt", "/dev/shm"
	testutil.Run(t, "mount", "-t", "tmpfs", "box", dir) // the root of the container
	if err := os.Mkdir(filepath.Join(dir, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	statfs := func(path string) string {
		t.Helper()
		var st syscall.Statfs_t
		if err := syscall.Statfs(path, &st); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(st.Blocks * uint64(st.Bsize) / 1024)
	}
	ofRoot, ofShm := statfs("/"), statfs(shm)

	var log strings.Builder
	harness := func(root string) *pmdatest.Harness {
		log.Reset()
		return newHarness(t, Options{Root: root, Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo))})
	}
	name := "" // of the file system at /
	valueOf := func(r *pmdatest.Harness, metric, name string) string {
		t.Helper()
		for _, v := range strings.Fields(r.Values(metric)) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
	check := func(what string, r *pmdatest.Harness, wantRoot, wantShm string) {
		t.Helper()
		if got := valueOf(r, "filesys.capacity", name); got != wantRoot {
			t.Errorf("%s: filesys.capacity of / is %q, want %q", what, got, wantRoot)
		}
		if got := valueOf(r, "tmpfs.capacity", shm); got != wantShm {
			t.Errorf("%s: tmpfs.capacity of %s is %q, want %q", what, shm, got, wantShm)
		}
	}
	for _, v := range strings.Fields(harness("/").Values("filesys.mountdir")) {
		if device, ok := strings.CutSuffix(v, "=/"); ok {
			name = device
		}
	}

	testutil.Run(t, "mount", "--rbind", "/proc", dir+"/proc")
	r := harness(dir)
	check("only /proc", r, "", "")
	check("only /proc", r, "", "")
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, name) || !strings.Contains(text, "-v /:"+dir+":ro,rslave") {
		t.Errorf("log:\n%s", text)
	}
	testutil.Run(t, "umount", "-l", dir+"/proc")

	testutil.Run(t, "mount", "--bind", "/", dir)
	testutil.Run(t, "mount", "--rbind", "/proc", dir+"/proc")
	check("/ without what is mounted below it", harness(dir), ofRoot, "")
	testutil.Run(t, "umount", "-l", dir)

	testutil.Run(t, "mount", "--rbind", "/", dir)
	r = harness(dir)
	check("all of the host", r, ofRoot, ofShm)
	testutil.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir+shm)
	check("another tmpfs", r, ofRoot, "")
	testutil.Run(t, "umount", dir+shm)
	check("all of the host again", r, ofRoot, ofShm)

	// Root is /, and the mounts are a copy of those of the host.
	testutil.Run(t, "umount", "-l", dir)
	r = harness("/")
	check("copied mounts", r, ofRoot, ofShm)
	testutil.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", shm)
	check("another tmpfs", r, ofRoot, "")
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "PrivateTmp=") {
		t.Errorf("log:\n%s", text)
	}
}

// A file system of a container that another one hides is not an instance. An overlay as the
// root of the container has values.
func TestContainerHiddenMount(t *testing.T) {
	dir := t.TempDir()
	pid := startFakeContainer(t, func() error {
		if err := unix.Mount("box", dir, "tmpfs", 0, "size=4m"); err != nil {
			return err
		}
		for _, d := range []string{"upper", "work", "root"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount("overlay", dir+"/root", "overlay", 0, fmt.Sprintf("lowerdir=/etc,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
			return err
		}
		if err := unix.Chroot(dir + "/root"); err != nil {
			return err
		}
		if err := os.Mkdir("/hidden", 0o755); err != nil {
			return err
		}
		if err := unix.Mount("/dev/fake", "/hidden", "ramfs", 0, ""); err != nil {
			return err
		}
		return unix.Mount("box", "/hidden", "tmpfs", 0, "size=1m")
	})
	root := roottest.Start(t)
	root.Set("box", roottest.Container{PID: pid})
	r := newContainerHarness(t, Options{Pmdaroot: root.Socket})
	setContainer(r, "box")
	r.Want(map[string]string{
		"filesys.mountdir": "overlay=/",
		"filesys.capacity": "overlay=4096",
		"tmpfs.capacity":   "/hidden=1024",
	})
}
