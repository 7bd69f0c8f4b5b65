package linux

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// All file systems of this test are the one that has the tree.
func TestFilesystems(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/1/mounts": "proc /proc proc rw 0 0\n" +
			"/dev/vda1 / ext4 rw,relatime 0 0\n" +
			"/dev/vda1 /again ext4 rw 0 0\n" +
			"/dev/disk/by-label/data /data xfs nobarrier,ro 0 0\n" +
			"/dev/mapper/vg0-home /home ext4 rw,errors=ro 0 0\n" +
			"/dev/loop0 /snap/x squashfs ro 0 0\n" +
			"/dev/vdd /with\\040blank\\134 vfat ro,rw 0 0\n" +
			"/dev/vde /gone ext4 rw 0 0\n" +
			"host:/x /nfs nfs4 rw 0 0\n" +
			"auto.x /auto autofs rw 0 0\n" +
			"tmpfs /run tmpfs rw,nosuid 0 0\n" +
			"tmpfs /run/lock tmpfs rw 0 0\n" +
			"/dev/vdf /short ext4\n" +
			"\n",
		"dev/disk/by-label/data": "-> ../../vdb1",
		"dev/mapper/vg0-home":    "-> ../dm-0",
		"data/":                  "", "home/": "", "run/": "", "with blank\\/": "",
	})
	writeMountinfo(t, root, "proc/1", root)
	var st syscall.Statfs_t
	if err := syscall.Statfs(root, &st); err != nil {
		t.Fatal(err)
	}
	const names = "/dev/vda1 /dev/vdb1 /dev/mapper/vg0-home /dev/vdd"
	each := func(value any) string {
		return strings.Join(strings.Fields(names), fmt.Sprintf("=%v ", value)) + fmt.Sprintf("=%v", value)
	}
	r := newHarness(t, Options{Root: root})
	if got := instText(r.Instances(indomFilesys)); got != "0=/dev/vda1 1=/dev/vdb1 2=/dev/mapper/vg0-home 3=/dev/vdd 4=/dev/vde" {
		t.Errorf("instances are %q", got)
	}
	r.Want(map[string]string{
		"filesys.capacity":  each(st.Blocks * uint64(st.Bsize) / 1024),
		"filesys.maxfiles":  each(uint32(st.Files)),
		"filesys.blocksize": each(st.Bsize),
		"filesys.mountdir":  `/dev/vda1=/ /dev/vdb1=/data /dev/mapper/vg0-home=/home /dev/vdd=/with\040blank\134 /dev/vde=/gone`,
		"filesys.readonly":  "/dev/vda1=0 /dev/vdb1=1 /dev/mapper/vg0-home=0 /dev/vdd=1 /dev/vde=0",
		"tmpfs.capacity":    fmt.Sprintf("/run=%d", st.Blocks*uint64(st.Bsize)/1024),
		"hinv.nfilesys":     "5",
	})

	// The text is the same, but the directory was removed: each fetch calls
	// statfs(2).
	if err := os.Remove(filepath.Join(root, "run")); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"tmpfs.capacity": ""})
	pmdatest.WriteFile(t, root, "proc/1/mounts", "tmpfs /run/lock tmpfs rw 0 0\n/dev/vdd / vfat rw 0 0\n")
	if got := instText(r.Instances(indomFilesys)); got != "3=/dev/vdd" {
		t.Errorf("instances are %q", got)
	}
	r.Want(map[string]string{"filesys.mountdir": "/dev/vdd=/", "tmpfs.used": ""})
	pmdatest.WriteFile(t, root, "proc/1/mounts", "")
	r.Want(map[string]string{"filesys.mountdir": "", "hinv.nfilesys": "0"})
}

// A file system is not an instance where another one is mounted over it. One without a source is as
// good as others.
func TestHiddenFilesystems(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/1/mounts": "rootfs / rootfs rw 0 0\n" +
			"tmpfs /dev/shm tmpfs rw 0 0\n" +
			"tmpfs /run tmpfs rw 0 0\n" +
			"/dev/mapper/rhel-root / xfs rw 0 0\n" +
			"/dev/sda2 /mnt ext4 rw 0 0\n" +
			"tmpfs /srv tmpfs rw 0 0\n" +
			"/dev/sdb1 /mnt xfs ro 0 0\n" +
			"/dev/sda2 /data ext4 rw 0 0\n" +
			"/dev/sdc1 /srv ext4 rw 0 0\n" +
			" /dev/shm tmpfs rw 0 0\n",
		"dev/shm/": "", "run/": "",
	})
	writeMountinfo(t, root, "proc/1", root)
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"filesys.mountdir": "/dev/mapper/rhel-root=/ /dev/sdb1=/mnt /dev/sda2=/data /dev/sdc1=/srv",
		"filesys.readonly": "/dev/mapper/rhel-root=0 /dev/sdb1=1 /dev/sda2=0 /dev/sdc1=0",
		"hinv.nfilesys":    "4",
	})
	if got := r.Values("tmpfs.full"); !strings.HasPrefix(got, "/dev/shm=") || !strings.Contains(got, " /run=") {
		t.Errorf("tmpfs.full is %q", got)
	}
}

// The mounts of the host are used only if this process has a copy of them.
func TestHasCopiedMounts(t *testing.T) {
	const (
		proc = "22 1 0:21 / /proc rw - proc proc rw\n"
		host = "1 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n" + proc
	)
	for _, tt := range []struct {
		name, self, host string
		want             bool
	}{
		{"the same mounts", host, host, false},
		{"copies of a service manager", "119 76 254:0 / / ro,nosuid shared:23 master:1 - ext4 /dev/vda1 rw\n" + proc, host, true},
		{"a container", "119 76 0:55 / / rw - overlay overlay rw\n" + proc, host, false},
		{"a container in a directory", "119 76 254:0 /srv/c / rw - ext4 /dev/vda1 rw\n" + proc, host, false},
		{"one mounted over another", "1 1 0:2 / / rw - rootfs rootfs rw\n" + host, host, false},
		{"the mounts of the host cannot be read", host, "", false},
		{"short lines", "1 1 254:0 /\n", host, false},
	} {
		if got := hasCopiedMounts([]byte(tt.self), []byte(tt.host)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestResolveLinks(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"dev/a": "-> b", "dev/b": "-> /dev/c", "dev/c": "", "dev/loop": "-> loop", "dev/up": "-> ../../../x", "dev/none": "-> zero", "home/a": "-> secret",
	})
	f := newFilesystems(newHost(60, Options{Root: root}))
	for name, want := range map[string]string{
		"/dev/a": "/dev/c", "/dev/c": "/dev/c", "/dev/loop": "/dev/loop", "/dev/up": "/x", "/dev/none": "/dev/zero", "overlay": "overlay", "": "",
		"/home/a": "/home/a", "/dev/../home/a": "/dev/../home/a",
	} {
		if got := f.resolve(name); got != want {
			t.Errorf("%s resolves to %s, want %s", name, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/a": "/a", `/a\040b`: "/a b", `\134`: `\`, `\04`: `\04`, `\089`: `\089`, `a\`: `a\`, `\777x`: "\xffx",
	} {
		if got := unescape([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Ids of file systems are saved, as in PCP 7.2.1.
func TestFilesystemIDs(t *testing.T) {
	root, cache := pmdatest.Tree(t, nil), t.TempDir()
	mount := func(devices ...string) {
		text := "tmpfs /run tmpfs rw 0 0\n"
		for _, d := range devices {
			text += d + " /" + d + " ext4 rw 0 0\n"
		}
		pmdatest.WriteFile(t, root, "proc/1/mounts", text)
	}
	mount("/dev/vda1", "/dev/vdb1")
	r := newHarness(t, Options{Root: root, CacheDir: cache})
	if got, want := instText(r.Instances(indomFilesys)), "0=/dev/vda1 1=/dev/vdb1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	mount("/dev/vdc1", "/dev/vdb1")
	r = newHarness(t, Options{Root: root, CacheDir: cache})
	if got, want := instText(r.Instances(indomFilesys)), "1=/dev/vdb1 2=/dev/vdc1"; got != want {
		t.Errorf("a new agent has %q, want %q", got, want)
	}
	b, err := os.ReadFile(filepath.Join(cache, "60.5"))
	if text := string(b); err != nil || strings.Count(text, "\n") != 4 || !strings.HasSuffix(text, " /dev/vdc1\n") {
		t.Errorf("the file has %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(cache, "60.18")); err == nil {
		t.Error("ids of tmpfs are saved")
	}
}

// If the file of ids could not be read, it is read later, even if the mounts have
// not changed.
func TestFilesystemIDsReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, cache := pmdatest.Tree(t, map[string]string{"proc/1/mounts": "/dev/vda1 / ext4 rw 0 0\n"}), t.TempDir()
		if err := os.Symlink("elsewhere", filepath.Join(cache, "60.5")); err != nil { // package cache does not follow links, not even as root
			t.Fatal(err)
		}
		f := newFilesystems(newHost(60, Options{Root: root, CacheDir: cache, Log: slog.New(slog.DiscardHandler)}))
		id := func() (id int32) {
			if err := f.read(t.Context(), nil); err != nil {
				t.Error(err)
			}
			f.devices.Each(func(i int32, _ string, _ any) bool { id = i; return true })
			return id
		}
		if got := id(); got != 1<<30 {
			t.Errorf("id %d", got)
		}
		if err := os.Remove(filepath.Join(cache, "60.5")); err != nil {
			t.Fatal(err)
		}
		pmdatest.WriteFile(t, cache, "60.5", "2 0 2147483647\n7 1 /dev/vda1\n")
		time.Sleep(time.Second)
		if got := id(); got != 7 {
			t.Errorf("id %d, want 7", got)
		}
	})
}

// A file system without blocks, such as /proc, is not full.
func TestFullWithoutBlocks(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/1/mounts": "/dev/vdz /zero ext4 rw 0 0\ntmpfs /none tmpfs rw 0 0\n", "zero": "-> /proc", "none": "-> /proc"})
	writeMountinfo(t, root, "proc/1", "/proc")
	newHarness(t, Options{Root: root}).Want(map[string]string{
		"filesys.capacity": "/dev/vdz=0", "filesys.full": "/dev/vdz=0", "tmpfs.full": "/none=0",
	})
}
