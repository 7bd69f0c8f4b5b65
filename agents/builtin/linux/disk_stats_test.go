package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// testdata/storage is composed, see its README. The numbers in a line of diskstats
// are 1000 times the number of the line, plus an offset for each field.
func TestStorage(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/storage", PageSize: 4096})
	r.Want(map[string]string{
		"disk.all.read":                   "17000", // sda, sdb, nvme0n1, sdc
		"disk.all.total_bytes":            "17276",
		"disk.all.inflight":               "17552",
		"disk.partitions.read":            "sda1=2000 sda2=3000 nvme0n1p1=6000",
		"disk.partitions.capacity":        "sda1=1000001 sda2=1000002 nvme0n1p1=1000005",
		"disk.dm.read":                    "vg0-root=10000 vg0-swap=11000", // dm-2 has no name
		"disk.dm.capacity":                "vg0-root=1000009 vg0-swap=1000010",
		"disk.dm.read_bytes":              "vg0-root=5018 vg0-swap=5518",
		"disk.md.read":                    "md127=13000 md1=14000",
		"disk.md.capacity":                "md127=1000012 md1=1000013",
		"disk.md.status":                  "md127=256 md1=512",
		"disk.wwid.scsi_paths":            "3600508b1001c1d2d=sda sdb 20025385b71b00a2c=nvme0n1 1ATA_____disk_one=sdc",
		"disk.wwid.read":                  "3600508b1001c1d2d=5000 20025385b71b00a2c=5000 1ATA_____disk_one=7000",
		"disk.wwid.capacity":              "3600508b1001c1d2d=1000003 20025385b71b00a2c=1000004 1ATA_____disk_one=1000006",
		"disk.wwid.scheduler":             "3600508b1001c1d2d=mq-deadline 20025385b71b00a2c=none 1ATA_____disk_one=unknown",
		"zram.read":                       "zram0=15000 zram1=16000",
		"zram.capacity":                   "zram0=4194304 zram1=0",
		"zram.io_stat.notify_free":        "zram0=4",
		"zram.mm_stat.data_size.original": "zram0=1024",
		"zram.mm_stat.pages.huge":         "zram0=28",
		"zram.bd_stat.writes":             "zram0=40",
	})
}

func TestBrokenDisks(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/diskstats": "   8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n   8 16 sdb 10 20 x 40\n" +
			" 252 0 zram0 1 2\n   9 0 md0 1\n   9 1 md1 2\n   9 2 md2 3\n   9 3 md3 4\n   9 4 md4 5\n   9 5 md5 6\n",
		"sys/block/sda/wwid":              "unknown\n",
		"sys/block/sdb/wwid":              "naa.5\n",
		"sys/block/zram0/mm_stat":         "1024 x 2048 0 0 3\n", // as in older kernels
		"sys/block/zram0/disksize":        "large\n",
		"sys/block/md0/md/array_state":    "clean\n",
		"sys/block/md1/md/array_state":    "active\n",
		"sys/block/md1/md/degraded":       "0\n",
		"sys/block/md2/md/array_statexxx": "active\n",
		// A container, and two devices in it that do not run.
		"sys/block/md3/md/array_state":      "inactive\n",
		"sys/block/md3/md/metadata_version": "external:imsm\n",
		"sys/block/md4/md/array_state":      "inactive\n",
		"sys/block/md4/md/metadata_version": "external:/md3/0\n",
		"sys/block/md5/md/array_state":      "clear\n",
		"sys/block/md5/md/metadata_version": "external:-md3/1\n",
	})
	r := newHarness(t, Options{Root: root, PageSize: 65536})
	r.Want(map[string]string{
		"disk.all.read":                     "11",
		"disk.all.blkread":                  "", // the number of sdb is not known
		"disk.all.write":                    "",
		"disk.all.flush":                    "0",
		"disk.wwid.read":                    "35=10",
		"disk.wwid.blkread":                 "",
		"disk.wwid.capacity":                "",
		"zram.read":                         "zram0=1",
		"zram.write":                        "",
		"zram.capacity":                     "zram0=0",
		"zram.mm_stat.data_size.original":   "zram0=1",
		"zram.mm_stat.data_size.compressed": "",
		"zram.mm_stat.mem.used_total":       "zram0=2",
		"zram.mm_stat.pages.same":           "zram0=192",
		"zram.mm_stat.pages.huge":           "",
		"zram.io_stat.invalid":              "",
		"disk.md.status":                    "md0=0 md1=0 md2=-1 md3=0 md4=512 md5=512",
	})
	// A disk that was removed is not a path any more.
	pmdatest.WriteFile(t, root, "proc/diskstats", strings.Repeat(" 8 0 sda 1\n", 2))
	r.Want(map[string]string{"disk.wwid.read": "", "disk.all.read": "1", "zram.capacity": "", "disk.md.read": ""})
}

func TestDisks(t *testing.T) {
	var lines strings.Builder
	for i, name := range []string{
		"sda", "sda1", "nvme0n1", "nvme0n1p1", "mmcblk0", "mmcblk0p2", "cciss/c0d0", "cciss/c0d0p1", "dm-0", "dm-1", "dm-2",
		"md0", "md127", "md126", "sr0", "loop0", "ram1", "zram0", "nbd3", "nbd3p1", "rbd0", "xvmdisk", "xvda", "xvda1", "hda",
		"3600508b1001c1d2d3", "dasda",
	} {
		fmt.Fprintf(&lines, " 8 %d %s %d 0 0 0 0 0 0 0 0 0 0\n", i, name, 100+i)
	}
	root := pmdatest.Tree(t, map[string]string{
		"proc/diskstats":                    lines.String(),
		"sys/block/sda/queue/scheduler":     "noop deadline [cfq]\n",
		"sys/block/sda/device/wwid":         "naa.600508b1001c1d2d3\n",
		"sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline\n",
		"sys/block/nvme0n1/wwid":            "eui.0025385b71b00a2c\n",
		"sys/block/mmcblk0/queue/scheduler": "none\n",
		"sys/block/cciss!c0d0/device/wwid":  "t10.ATA disk 1 \n",
		"sys/block/hda/device/wwid":         "t10.ATA disk 2\n",
		"sys/block/dasda/device/wwid":       "other\n",
		"sys/block/dm-0/dm/name":            "vg0-root\n",
		"sys/block/dm-1/dm/name":            "vg0-swap\n",
		"dev/md/data":                       "-> ../md127",
		"dev/md/126":                        "-> ../md126",
		"dev/md/.x":                         "-> ../md126",
		"dev/mapper/control":                "",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"disk.dev.read":      "sda=100 nvme0n1=102 mmcblk0=104 cciss/c0d0=106 nbd3=118 rbd0=120 xvda=122 hda=124 dasda=126",
		"disk.dev.scheduler": "sda=cfq nvme0n1=none mmcblk0=unknown cciss/c0d0=unknown nbd3=unknown rbd0=unknown xvda=unknown hda=unknown dasda=unknown",
		"hinv.map.scsi_id":   "sda=3600508b1001c1d2d3 nvme0n1=20025385b71b00a2c mmcblk0=unknown cciss/c0d0=1ATA disk 1 nbd3=unknown rbd0=unknown xvda=unknown hda=1ATA disk 2 dasda=other",
		"disk.wwid.read":     "3600508b1001c1d2d3=100 20025385b71b00a2c=102 1ATA_disk_1=106 1ATA_disk_2=124 other=126",
		"hinv.ndisk":         "9",
		"hinv.map.dmname":    "vg0-root=dm-0 vg0-swap=dm-1",
		"hinv.map.mdname":    "md0=md0 data=md127 md126=md126",
	})
}
