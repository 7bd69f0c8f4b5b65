package xfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// numberedStats composes statistics with all lines of Linux 6.18. The numbers count
// from from.
func numberedStats(from int) string {
	var b strings.Builder
	for _, line := range []struct {
		key string
		n   int
	}{
		{"extent_alloc", 4}, {"abt", 4}, {"blk_map", 7}, {"bmbt", 4}, {"dir", 4}, {"trans", 3}, {"ig", 7}, {"log", 5}, {"push_ail", 10},
		{"xstrat", 2}, {"rw", 2}, {"attr", 4}, {"icluster", 3}, {"vnodes", 8}, {"buf", 9}, {"abtb2", 15}, {"abtc2", 15}, {"bmbt2", 15},
		{"ibt2", 15}, {"fibt2", 15}, {"rmapbt", 15}, {"refcntbt", 15}, {"rmapbt_mem", 15}, {"rcbagbt", 15}, {"rtrmapbt", 15},
		{"rtrmapbt_mem", 15}, {"rtrefcntbt", 15}, {"qm", 8}, {"zoned", 3}, {"metafile", 1}, {"xpc", 3}, {"gc xpc", 1}, {"defer_relog", 1}, {"debug", 1},
	} {
		b.WriteString(line.key)
		for range line.n {
			fmt.Fprintf(&b, " %d", from)
			from++
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestDescribed(t *testing.T) {
	r := newHarness(t, t.TempDir())
	r.CheckNamesAndHelp("../../../etc/root", r.Agent)
	if len(r.Metrics) != 559 {
		t.Errorf("%d metrics", len(r.Metrics))
	}
}

func TestAgent(t *testing.T) {
	r := newHarness(t, pmdatest.Tree(t, map[string]string{"sys/fs/xfs/stats/stats": numberedStats(1), "sys/fs/xfs/sda1/stats/stats": numberedStats(1), "proc/mounts": ""}))
	r.CheckAgent()
}

func TestStatistics(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"sys/fs/xfs/stats/stats":         numberedStats(1),
		"sys/fs/xfs/sda1/stats/stats":    "xpc 1 18446744073709551615 5\nlog 4 14 1\nrw x 9\nvnodes 4294967295\nextent_alloc 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\nabt 99\n",
		"sys/fs/xfs/dm-3/stats/stats":    numberedStats(1001),
		"sys/block/dm-3/dm/name":         "vg-a b\n",
		"sys/fs/xfs/broken/stats/":       "",
		"sys/fs/xfs/sdb/stats/stats":     "",
		"sys/fs/xfs/debug/bug_on_assert": "1\n",
	})
	r := newHarness(t, root)
	r.Want(map[string]string{
		"xfs.allocs.alloc_extent": "1", "xfs.allocs.free_block": "4", "xfs.alloc_btree.lookup": "5", "xfs.block_map.cmp_exlist": "15",
		"xfs.bmap_btree.delrec": "19", "xfs.dir_ops.lookup": "20", "xfs.transactions.empty": "26", "xfs.inode_ops.ig_attrchg": "33",
		"xfs.log.writes": "34", "xfs.log.blocks": "17", "xfs.log.write_ratio": "1.0294118", "xfs.log.force_sleep": "38",
		"xfs.log_tail.try_logspace": "39", "xfs.log_tail.push_ail.pushes": "41", "xfs.log_tail.push_ail.flush": "48",
		"xfs.xstrat.quick": "49", "xfs.write": "51", "xfs.read": "52", "xfs.attr.list": "56", "xfs.icluster_flushinode": "59",
		"xfs.vnodes.active": "60", "xfs.vnodes.free": "67", "xfs.buffer.get": "68", "xfs.buffer.get_read": "76",
		"xfs.btree.alloc_blocks.lookup": "77", "xfs.btree.alloc_blocks.moves": "91", "xfs.btree.alloc_contig.lookup": "92",
		"xfs.btree.block_map.lookup": "107", "xfs.btree.inode.lookup": "122", "xfs.btree.inode.compare": "123", "xfs.btree.free_inode.lookup": "137",
		"xfs.btree.reverse_map.lookup": "152", "xfs.btree.refcount.moves": "181", "xfs.btree.rmap_mem.lookup": "182", "xfs.btree.rcbag.lookup": "197",
		"xfs.btree.rtrmap.lookup": "212", "xfs.btree.rtrmap_mem.lookup": "227", "xfs.btree.rtrefcount.moves": "256",
		"xfs.quota.reclaims": "257", "xfs.quota.wants": "262", "xfs.quota.dquots": "263", "xfs.quota.dquots_unused": "264",
		"xfs.zoned.read_calls": "265", "xfs.zoned.zone_reset_calls": "267", "xfs.metafile.inodes": "268", "xfs.xstrat.bytes": "269",
		"xfs.write_bytes": "270", "xfs.read_bytes": "271", "xfs.zoned.bytes": "272", "xfs.defer_relog": "273", "xfs.control.reset": "0",
	})
	each := map[string][3]string{ // of sda1, dm-3 and sdb
		"xfs.perdev.write_bytes": {"18446744073709551615", "1270", "0"}, "xfs.perdev.log.write_ratio": {"3.5", "1.0009671", "0"},
		"xfs.perdev.log.blocks": {"7", "517", "0"}, "xfs.perdev.write": {"0", "1051", "0"}, "xfs.perdev.read": {"9", "1052", "0"},
		"xfs.perdev.vnodes.active": {"4294967295", "1060", "0"}, "xfs.perdev.alloc_btree.lookup": {"99", "1005", "0"},
		"xfs.perdev.buffer.get_read": {"0", "1076", "0"}, "xfs.perdev.allocs.free_block": {"4", "1004", "0"},
	}
	for name, want := range each {
		got := " " + r.Values(name) + " "
		for i, dev := range []string{"/dev/sda1", "/dev/mapper/vg-a_b", "/dev/sdb"} {
			if !strings.Contains(got, " "+dev+"="+want[i]+" ") {
				t.Errorf("%s has%s, not %s=%s", name, got, dev, want[i])
			}
		}
		if n := len(strings.Fields(got)); n != 3 {
			t.Errorf("%s has %d values", name, n)
		}
	}
	if err := os.RemoveAll(root + "/sys/fs/xfs/sdb"); err != nil {
		t.Fatal(err)
	}
	if got := r.Values("xfs.perdev.read"); strings.Contains(got, "sdb") || len(strings.Fields(got)) != 2 {
		t.Errorf("without sdb: %s", got)
	}
}

// The files of an older kernel, and a kernel without XFS.
func TestOlderKernels(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/fs/xfs/stat":            "rw 5 6\nqm 1 1 1 1 1 1 1 1\n",
		"proc/fs/xfs/xqmstat":         "qm\t11 12 13 14 15 16\n",
		"proc/sys/fs/xfs/stats_clear": "",
	})
	r := newHarness(t, root)
	r.Want(map[string]string{
		"xfs.write": "5", "xfs.quota.reclaims": "11", "xfs.quota.wants": "16", "xfs.quota.dquots": "1", "xfs.btree.rcbag.moves": "0",
		"xfs.perdev.read": "", "quota.project.files.used": "no such file or directory",
	})
	for _, tt := range []struct {
		n          uint32
		want, file string
	}{{0, "", ""}, {7, "", "1\n"}, {1 << 31, pdu.ErrnoSign.Error(), "1\n"}} {
		if got := r.Store("xfs.control.reset", pdu.Value{Word: tt.n}); got != tt.want {
			t.Errorf("store of %d: %q", tt.n, got)
		}
		if b, _ := os.ReadFile(root + "/proc/sys/fs/xfs/stats_clear"); string(b) != tt.file {
			t.Errorf("after a store of %d: %q", tt.n, b)
		}
	}
	pmdatest.WriteFile(t, root, "proc/sys/fs/xfs/stats_clear", "")
	for _, uid := range []string{"1000", "", "x", "4294967296"} {
		r.setUser(uid)
		for _, n := range []uint32{0, 1, 1 << 31} {
			if got := r.Store("xfs.control.reset", pdu.Value{Word: n}); got != pdu.ErrnoPermission.Error() {
				t.Errorf("store of %d by user %q: %q", n, uid, got)
			}
		}
	}
	if b, _ := os.ReadFile(root + "/proc/sys/fs/xfs/stats_clear"); len(b) > 0 {
		t.Errorf("after stores of clients other than root: %q", b)
	}
	r = newHarness(t, t.TempDir())
	r.Want(map[string]string{"xfs.write": "", "xfs.log.write_ratio": "", "xfs.perdev.read": "", "xfs.control.reset": "0"})
	if got := r.Store("xfs.control.reset", pdu.Value{Word: 1}); got != pdu.ErrnoPermission.Error() {
		t.Errorf("reset without a file: %q", got)
	}
}

func TestQuotas(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/mounts": "/dev/sda1 / ext4 rw 0 0\n/dev/disk/x /a xfs rw,prjquota 0 0\n/dev/sdb1 /b xfs rw 0 0\n/dev/mapper/v-c /c xfs rw 0 0\n" +
			"/dev/sdb1 /b2 xfs rw 0 0\nnone /d xfs rw 0 0\n/dev/md/0 /e xfs rw 0 0\n/dev/md/1 /f xfs\nshort",
		"etc/projects": "# 9:/x\n42:/a/one\n7:/c\n42:/a/two\nx:/y\n\n99999999999:/z\n:/\n8\n",
		"dev/disk/x":   "-> ../sdc1",
		"dev/sdc1":     "", "dev/sdb1": "", "dev/mapper/v-c": "-> ../dm-1", "dev/dm-1": "",
	})
	r := newHarness(t, root)
	flags := map[string]uint16{"/dev/sdc1": projectAccounting | projectEnforcement, "/dev/mapper/v-c": projectAccounting, "/dev/sdb1": 0xffcf}
	r.host.quotactl = func(cmd int, device string, id uint32, buf []byte) error {
		order := binary.NativeEndian
		switch {
		case device == "/dev/md/1":
			return syscall.ENOSYS
		case flags[device] == 0 || cmd == qXGetQuota && (id == 8 || device == "/dev/mapper/v-c" && id == 42):
			return syscall.ENOENT
		case cmd == qXGetQstat:
			order.PutUint16(buf[2:], flags[device])
		case cmd == qXGetQuota:
			for i := range 6 {
				order.PutUint64(buf[8+8*i:], uint64(1000*(i+1))+uint64(id))
			}
			order.PutUint32(buf[56:], id)
			order.PutUint32(buf[60:], -id)
		case cmd != qXQuotaSync:
			t.Errorf("command %#x", cmd)
		}
		return nil
	}
	r.Want(map[string]string{
		"quota.state.project.accounting":  "/dev/sdc1=1 /dev/sdb1=0 /dev/mapper/v-c=1 /dev/md/1=0",
		"quota.state.project.enforcement": "/dev/sdc1=1 /dev/sdb1=0 /dev/mapper/v-c=0 /dev/md/1=0",
		"quota.project.space.hard":        "42:/dev/sdc1=521 7:/dev/sdc1=503 7:/dev/mapper/v-c=503",
		"quota.project.space.soft":        "42:/dev/sdc1=1021 7:/dev/sdc1=1003 7:/dev/mapper/v-c=1003",
		"quota.project.files.hard":        "42:/dev/sdc1=3042 7:/dev/sdc1=3007 7:/dev/mapper/v-c=3007",
		"quota.project.files.soft":        "42:/dev/sdc1=4042 7:/dev/sdc1=4007 7:/dev/mapper/v-c=4007",
		"quota.project.space.used":        "42:/dev/sdc1=2521 7:/dev/sdc1=2503 7:/dev/mapper/v-c=2503",
		"quota.project.files.used":        "42:/dev/sdc1=6042 7:/dev/sdc1=6007 7:/dev/mapper/v-c=6007",
		"quota.project.files.time_left":   "42:/dev/sdc1=42 7:/dev/sdc1=7 7:/dev/mapper/v-c=7",
		"quota.project.space.time_left":   "42:/dev/sdc1=-42 7:/dev/sdc1=-7 7:/dev/mapper/v-c=-7",
	})
	pmdatest.WriteFile(t, root, "proc/mounts", "/dev/sdb1 /b xfs rw 0 0\n")
	r.Want(map[string]string{"quota.state.project.accounting": "/dev/sdb1=0", "quota.project.files.used": ""})
}

// In a container the file systems are those of the host, not those that the container has
// in /proc/mounts. One whose device is not there has no values.
func TestQuotasOfHost(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/1/mounts": "/dev/sda1 / xfs rw,prjquota 0 0\n/dev/sdb1 /b xfs rw 0 0\n",
		"proc/mounts":   "/dev/sdb1 /etc/hosts xfs rw 0 0\n",
		"dev/sdb1":      "", // not a device
	})
	r := newHarness(t, root)
	if list := r.Instances(indomFilesys); len(list) != 2 || list[0].Name != "/dev/sda1" {
		t.Errorf("instances are %v", list)
	}
	r.Want(map[string]string{"quota.state.project.accounting": "", "quota.state.project.enforcement": ""})
}

// For any contents of the file, the numbers do not depend on what was read before.
func FuzzStats(f *testing.F) {
	f.Add("", numberedStats(1))
	f.Add(numberedStats(1), "rw 1\nrw 2 3\ngc 5\nxpc\t1 -2 99999999999999999999\nlog\n")
	l := newLayout()
	f.Fuzz(func(t *testing.T, before, text string) {
		var reused, fresh stats
		l.parse(&reused, []byte(before))
		l.parse(&reused, []byte(text))
		l.parse(&fresh, []byte(text))
		if fmt.Sprint(reused) != fmt.Sprint(fresh) {
			t.Errorf("after %q, %q gives %v\nwithout it %v", before, text, reused, fresh)
		}
	})
}

func FuzzQuotas(f *testing.F) {
	f.Add("/dev/sda / xfs rw 0 0\n", "1:/a\n2:/b\n")
	root := pmdatest.Tree(f, map[string]string{"proc/": "", "etc/": "", "dev/sda": ""})
	f.Fuzz(func(t *testing.T, mounts, projects string) {
		pmdatest.WriteFile(t, root, "proc/mounts", mounts)
		pmdatest.WriteFile(t, root, "etc/projects", projects)
		h := newHost(11, Options{Root: root})
		h.quotactl = func(cmd int, device string, id uint32, buf []byte) error {
			if !strings.HasPrefix(device, "/dev") {
				t.Errorf("asked about %q", device)
			}
			buf[2] = projectAccounting
			return nil
		}
		if err := h.quotas.read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, name := range projectNames(h.quotas) {
			if seen[name] {
				t.Errorf("%q is there twice", name)
			}
			seen[name] = true
		}
	})
}

func projectNames(q *quotas) (names []string) {
	q.projects.Each(func(_ int32, name string, _ any) bool {
		names = append(names, name)
		return true
	})
	return names
}
