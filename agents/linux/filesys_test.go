package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// The files of this test are composed. All file systems are the one of the tree.
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
	var st syscall.Statfs_t
	if err := syscall.Statfs(root, &st); err != nil {
		t.Fatal(err)
	}
	const names = "/dev/vda1 /dev/vdb1 /dev/mapper/vg0-home /dev/vdd"
	each := func(value any) string {
		return strings.Join(strings.Fields(names), fmt.Sprintf("=%v ", value)) + fmt.Sprintf("=%v", value)
	}
	r := newRig(t, Options{Root: root})
	if got := ids(r.Instances(indomFilesys)); got != "0=/dev/vda1 1=/dev/vdb1 2=/dev/mapper/vg0-home 3=/dev/vdd 4=/dev/vde" {
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

	// The same text, but the directory is no more: each fetch asks anew.
	if err := os.Remove(filepath.Join(root, "run")); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"tmpfs.capacity": pdu.ErrnoInst.Error()})
	pmdatest.WriteFile(t, root, "proc/1/mounts", "tmpfs /run/lock tmpfs rw 0 0\n/dev/vdd / vfat rw 0 0\n")
	if got := ids(r.Instances(indomFilesys)); got != "3=/dev/vdd" {
		t.Errorf("instances are %q", got)
	}
	r.Want(map[string]string{"filesys.mountdir": "/dev/vdd=/", "tmpfs.used": pdu.ErrnoInst.Error()})
	pmdatest.WriteFile(t, root, "proc/1/mounts", "")
	r.Want(map[string]string{"filesys.mountdir": "", "hinv.nfilesys": "0"})
}

func TestFollow(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"dev/a": "-> b", "dev/b": "-> /dev/c", "dev/c": "", "dev/loop": "-> loop", "dev/up": "-> ../../../x", "dev/none": "-> zero", "home/a": "-> secret",
	})
	f := newFilesystems(newHost(60, Options{Root: root}))
	for name, want := range map[string]string{
		"/dev/a": "/dev/c", "/dev/c": "/dev/c", "/dev/loop": "/dev/loop", "/dev/up": "/x", "/dev/none": "/dev/zero", "overlay": "overlay", "": "",
		"/home/a": "/home/a", "/dev/../home/a": "/dev/../home/a",
	} {
		if got := f.follow(name); got != want {
			t.Errorf("%s leads to %s, want %s", name, got, want)
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
