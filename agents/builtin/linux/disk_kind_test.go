package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// diskstats returns lines for devices. Each has its place in the list, from 1, as the number of reads.
// A device with a minus sign before its name has no I/O.
func diskstats(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		n := i + 1
		if strings.HasPrefix(name, "-") {
			name, n = name[1:], 0
		}
		fmt.Fprintf(&b, " 259 %d %s %d 0 0 0 0 0 0 0 0 0 0\n", i, name, n)
	}
	return b.String()
}

// The kernel says in /sys which devices are partitions, paths and made of others. Without /sys their
// names do.
func TestDiskKinds(t *testing.T) {
	all := []string{
		"zd0", "zd0p1", "drbd1", "bcache0", "pmem0", "ublkb0", "mtdblock0", "ploop12345", "ploop12345p1", "dasda", "dasda1", "xvda1", "fd0",
		"mmcblk0boot0", "mmcblk0", "mmcblk0p1", "nbd0", "nbd0p1", "sr0", "loop0", "loop0p1", "ram0", "dm-1", "md127", "md127p1", "zram0",
		"cciss/c0d0", "cciss/c0d0p1", "nvme0n1", "nvme0n1p1", "nvme0c0n1", "nvme0c1n1",
	}
	partitions := map[string]string{
		"zd0p1": "zd0", "ploop12345p1": "ploop12345", "dasda1": "dasda", "mmcblk0p1": "mmcblk0", "nbd0p1": "nbd0", "loop0p1": "loop0",
		"md127p1": "md127", "cciss!c0d0p1": "cciss!c0d0", "nvme0n1p1": "nvme0n1",
	}
	sys := func(files map[string]string) map[string]string {
		for i, name := range all {
			name = strings.ReplaceAll(name, "/", "!")
			files["sys/class/block/"+name+"/dev"] = fmt.Sprintf("259:%d\n", i)
			if partitions[name] != "" {
				files["sys/class/block/"+name+"/partition"] = "1\n"
			} else {
				files["sys/block/"+name+"/hidden"] = "0\n"
			}
		}
		files["sys/block/nvme0c0n1/hidden"], files["sys/block/nvme0c1n1/hidden"] = "1\n", "1\n"
		return files
	}
	const disks = "zd0=1 drbd1=3 bcache0=4 pmem0=5 ublkb0=6 mtdblock0=7 ploop12345=8 dasda=10 xvda1=12 fd0=13 mmcblk0boot0=14 mmcblk0=15 nbd0=17 " +
		"cciss/c0d0=27 nvme0n1=29"
	const parts = "zd0p1=2 ploop12345p1=9 dasda1=11 mmcblk0p1=16 nbd0p1=18 md127p1=25 cciss/c0d0p1=28 nvme0n1p1=30"
	for _, tt := range []struct {
		name  string
		stats string
		files map[string]string // besides diskstats
		want  map[string]string
	}{
		{"names", diskstats(all...), map[string]string{"sys/.keep": ""}, map[string]string{
			"disk.dev.read": disks, "disk.partitions.read": parts, "disk.all.read": "171", "hinv.ndisk": "15", "disk.md.read": "md127=24",
		}},
		{"sys", diskstats(all...), sys(map[string]string{}), map[string]string{
			"disk.dev.read": disks, "disk.partitions.read": parts, "disk.all.read": "171", "hinv.ndisk": "15", "disk.md.read": "md127=24",
		}},
		{"a disk that is made of others is not in the total", diskstats("sda", "bcache0"), map[string]string{
			"sys/block/sda/hidden": "0\n", "sys/block/bcache0/slaves/sda": "-> ../../sda",
		}, map[string]string{"disk.dev.read": "sda=1 bcache0=2", "disk.all.read": "1", "hinv.ndisk": "2"}},
		{"a disk whose slaves are its paths is", diskstats("nvme0c0n1", "nvme0n1"), map[string]string{
			"sys/block/nvme0c0n1/hidden": "1\n", "sys/block/nvme0n1/slaves/nvme0c0n1": "-> ../../nvme0c0n1",
		}, map[string]string{"disk.dev.read": "nvme0n1=2", "disk.all.read": "2"}},
		{"a whole disk with the name of a partition", diskstats("sda", "sda1"), map[string]string{
			"sys/class/block/sda/dev": "8:0\n", "sys/class/block/sda1/dev": "8:1\n",
		}, map[string]string{"disk.dev.read": "sda=1 sda1=2", "disk.partitions.read": ""}},
		{"a head without counters", diskstats("-nvme0n1", "nvme0c0n1", "nvme0c1n1", "-nvme1n1", "-nvme1c0n1"), map[string]string{
			"sys/block/nvme0c0n1/hidden": "1\n",
		}, map[string]string{"disk.dev.read": "nvme0n1=0 nvme0c0n1=2 nvme0c1n1=3 nvme1n1=0", "disk.all.read": "5"}},
		{"a path without a head", diskstats("nvme0c0n1"), nil, map[string]string{"disk.dev.read": "nvme0c0n1=1"}},
		{"another hidden device", diskstats("sda", "sdb"), map[string]string{"sys/block/sdb/hidden": "1\n"}, map[string]string{"disk.dev.read": "sda=1"}},
		{"names that are like those of paths", diskstats("nvme0n1", "nvme0c", "nvme0cn1", "nvmec0n1", "nvme0c0n", "nvme0c0n1x"), nil, map[string]string{
			"disk.all.read": "21",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"proc/diskstats": tt.stats}
			for name, text := range tt.files {
				files[name] = text
			}
			newHarness(t, Options{Root: pmdatest.Tree(t, files)}).Want(tt.want)
		})
	}
}

// What /sys says is looked up when it is there, and again for another device of the same name.
func TestDiskKindChanges(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/diskstats": diskstats("sda", "sda1")})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"disk.dev.read": "sda=1", "disk.partitions.read": "sda1=2"})
	pmdatest.WriteFile(t, root, "sys/class/block/sda1/dev", "8:1\n")
	r.Want(map[string]string{"disk.dev.read": "sda=1 sda1=2", "disk.partitions.read": ""})
	pmdatest.WriteFile(t, root, "proc/diskstats", diskstats("sda"))
	r.Want(map[string]string{"disk.dev.read": "sda=1"})
	pmdatest.WriteFile(t, root, "sys/class/block/sda1/partition", "1\n")
	pmdatest.WriteFile(t, root, "proc/diskstats", diskstats("sda", "sda1"))
	r.Want(map[string]string{"disk.dev.read": "sda=1", "disk.partitions.read": "sda1=2"})
}

// What a disk is made of is looked up when it has I/O: DRBD and others get their disks after they are made.
func TestDiskIsStackedLater(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/diskstats": diskstats("sda", "-drbd1"), "sys/block/sda/hidden": "0\n", "sys/block/drbd1/hidden": "0\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"disk.all.read": "1", "disk.dev.read": "sda=1 drbd1=0"})
	pmdatest.WriteFile(t, root, "sys/block/drbd1/slaves/sda/dev", "8:0\n")
	pmdatest.WriteFile(t, root, "proc/diskstats", diskstats("sda", "drbd1"))
	for range 2 {
		r.Want(map[string]string{"disk.all.read": "1", "disk.dev.read": "sda=1 drbd1=2"})
	}
}
