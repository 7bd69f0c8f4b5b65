package linux

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// testdata/vm was recorded on a virtual machine with two CPUs, the files of
// this test later than those of TestRecorded.
func TestRecordedKernel(t *testing.T) {
	newRig(t, Options{Root: "testdata/vm", PageSize: 4096}).Want(map[string]string{
		"kernel.all.intr":                     "114831788",
		"kernel.all.pswitch":                  "395214611",
		"kernel.all.sysfork":                  "627242",
		"kernel.all.running":                  "3",
		"kernel.all.blocked":                  "0",
		"kernel.all.boottime":                 "1795266879",
		"kernel.all.hz":                       "100",
		"kernel.all.lastpid":                  "10805",
		"kernel.all.runnable":                 "4",
		"kernel.all.nprocs":                   "184",
		"kernel.all.uptime":                   "17842.13",
		"kernel.all.idletime":                 "14558.39",
		"kernel.all.entropy.avail":            "256",
		"kernel.all.pid_max":                  "32768",
		"kernel.all.pressure.cpu.some.avg":    "10_second=63.3 1_minute=78.15 5_minute=69.53",
		"kernel.all.pressure.cpu.some.total":  "6920834421",
		"kernel.all.pressure.io.full.total":   "35361059",
		"kernel.all.pressure.memory.full.avg": "10_second=0 1_minute=0 5_minute=0",
		"kernel.all.pressure.irq.full.avg":    "",
		"kernel.pernode.cpu.user":             "node0=4821050",
		"kernel.pernode.cpu.intr":             "node0=230010",
		"kernel.uname.distro":                 "Debian 12.11",
		"mem.freemem":                         "21515588",
		"mem.numa.util.total":                 "node0=10840276",
		"mem.numa.util.mapped":                "node0=116520",
		"mem.numa.util.inactive_anon":         "node0=350492",
		"mem.numa.util.hugepagesTotalBytes":   "node0=0",
		"mem.numa.util.highTotal":             "",
		"mem.numa.alloc.hit":                  "node0=650165020",
		"mem.numa.alloc.interleave_hit":       "node0=1129",
		"mem.numa.max_bandwidth":              "",
		"mem.vmstat.nr_free_pages":            "1573021",
		"mem.vmstat.nr_slab":                  "140205",
		"mem.vmstat.kswapd_steal":             "",
		"mem.vmstat.numa_hit":                 "650149793",
		"swap.length":                         "0",
		"swap.pagesin":                        "0",
		"sysfs.kernel.debug.extfrag_unusable": "",
		"sysfs.kernel.uevent_seqnum":          "1297",
		"vfs.files.count":                     "2761",
		"vfs.files.max":                       "2466177",
		"vfs.inodes.count":                    "248103",
		"vfs.dentry.free":                     "387680",
		"vfs.aio.max":                         "65536",
		"vfs.locks.posix.count":               "0",
	})
}

// utRecord is a record of utmp(5).
func utRecord(typ uint16, user string) string {
	b := make([]byte, utSize)
	binary.NativeEndian.PutUint16(b, typ)
	copy(b[utUser:utUserEnd], user)
	return string(b)
}

// The trees of the tests below are composed from the formats that the kernel
// documents.

func TestKernelFiles(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/loadavg": "1 2 3 x/80 77\n",
		"proc/stat":    "cpu  1 0 0 0\ncpu0 1 0 0 0\nintr 1000 2 3\nctxt x\nbtime 1795266879\nprocesses 5 6\nprocs_running\n",
		"proc/uptime":  "17037.56 nan\n",
		"proc/meminfo": "SwapTotal: 100 kB\nSwapFree: 30 kB\nHugepagesize: 2048 kB\n",
		"proc/locks": "1: POSIX  ADVISORY  READ 5433 08:01:7864448 128 128\n" +
			"2: FLOCK  ADVISORY  WRITE 2001 08:01:7864554 0 EOF\n" +
			"2: -> FLOCK  ADVISORY  WRITE 2002 08:01:7864554 0 EOF\n" +
			"3: OFDLCK ADVISORY  WRITE -1 08:01:78 0 EOF\n" +
			"4: LEASE  ACTIVE    RW 1568 08:01:5 0 EOF\n" +
			"5: POSIX\nPOSIX ADVISORY READ\n6: OTHER ADVISORY READ 1 2 3\n",
		"proc/vmstat": "nr_slab_reclaimable 5\nnr_slab_unreclaimable 6\nthp_split_page 1\npswpin 7\npswpout 4294967296\n" +
			"pgsteal_kswapd 10\npgsteal_direct 20\npgsteal_file 30\npgsteal_unknown 99\npgscan_kswapd x\npgscan_direct_throttle 3\n" +
			"balloon_inflate 8\nballoon_deflate 9\nnr_dirty\nnr_mapped  3\n",
		"proc/pressure/cpu":                       "some avg10=1.25 avg60=x avg300=3 total=4\nfull avg10=5 total=6\nother avg10=7\n",
		"proc/pressure/irq":                       "full avg10=0.50 avg60=0.25 avg300=0.10 total=18446744073709551616\n",
		"proc/pressure/io":                        "some\nfull total=8",
		"run/utmp":                                utRecord(2, "reboot") + utRecord(7, "root") + utRecord(7, "root") + utRecord(7, "alice") + utRecord(7, "") + utRecord(8, "bob") + "half",
		"proc/sys/fs/file-nr":                     "982\tx\t2466177\n",
		"proc/sys/fs/aio-nr":                      "",
		"proc/sys/kernel/pid_max":                 "4194304\n",
		"etc/redhat-release":                      "A Linux release 9\nmore\n",
		"etc/lsb-release":                         "DISTRIB_ID=B\n",
		"sys/kernel/debug/extfrag/unusable_index": "Node 0, zone      DMA 0.100 0.200\nNode 0, zone   Normal 0.250 0.500 \nNode 9, zone Normal 1\nNode x, zone Normal 1\n",
		"sys/devices/system/node/node0/meminfo":   "Node 0 MemTotal:  100 kB\nNode 0 FilePmdMapped: 3 kB\nNode 0 MemFree: x kB\nNode 0 HugePages_Total:  3\nNode\nMemUsed: 5\n",
		"sys/devices/system/node/node0/numastat":  "numa_hit 602715410\nnuma_miss\n",
		"sys/devices/system/node/node0/cpu0/":     "",
	})
	newRig(t, Options{Root: root}).Want(map[string]string{
		"kernel.all.runnable":                 "",
		"kernel.all.nprocs":                   "80",
		"kernel.all.lastpid":                  "77",
		"kernel.all.intr":                     "1000",
		"kernel.all.pswitch":                  "",
		"kernel.all.boottime":                 "1795266879",
		"kernel.all.sysfork":                  "5",
		"kernel.all.running":                  "",
		"kernel.all.blocked":                  "",
		"kernel.all.uptime":                   "17037.56",
		"kernel.all.idletime":                 "",
		"swap.length":                         "102400",
		"swap.used":                           "71680",
		"swap.free":                           "30720",
		"swap.pagesin":                        "7",
		"swap.pagesout":                       "0", // 32 bits
		"vfs.locks.posix.read":                "1",
		"vfs.locks.posix.write":               "1",
		"vfs.locks.posix.count":               "3", // one says nothing more
		"vfs.locks.flock.read":                "0",
		"vfs.locks.flock.count":               "1",
		"vfs.locks.lease.read":                "1",
		"vfs.locks.lease.write":               "1",
		"vfs.locks.lease.count":               "1",
		"mem.vmstat.nr_slab":                  "11",
		"mem.vmstat.thp_split":                "",
		"mem.vmstat.pgsteal_total":            "60",
		"mem.vmstat.pgscan_direct_total":      "3",
		"mem.vmstat.pgscan_kswapd_total":      "0",
		"mem.vmstat.pgscan_kswapd":            "",
		"mem.vmstat.balloon_deflate":          "8",
		"mem.vmstat.balloon_inflate":          "9",
		"mem.vmstat.nr_dirty":                 "",
		"mem.vmstat.nr_mapped":                "3",
		"kernel.all.pressure.cpu.some.avg":    "10_second=1.25 5_minute=3",
		"kernel.all.pressure.cpu.some.total":  "4",
		"kernel.all.pressure.irq.full.avg":    "10_second=0.5 1_minute=0.25 5_minute=0.1",
		"kernel.all.pressure.irq.full.total":  "",
		"kernel.all.pressure.io.some.avg":     "",
		"kernel.all.pressure.io.some.total":   "",
		"kernel.all.pressure.io.full.total":   "8",
		"kernel.all.nusers":                   "3",
		"kernel.all.nroots":                   "2",
		"kernel.all.nsessions":                "6",
		"vfs.files.count":                     "982",
		"vfs.files.free":                      "",
		"vfs.files.max":                       "2466177",
		"vfs.aio.count":                       "",
		"kernel.all.pid_max":                  "4194304",
		"kernel.uname.distro":                 "A Linux release 9",
		"sysfs.kernel.debug.extfrag_unusable": "node0=0.75",
		"mem.numa.util.total":                 "node0=100",
		"mem.numa.util.mapped":                "",
		"mem.numa.util.free":                  "",
		"mem.numa.util.used":                  "",
		"mem.numa.util.hugepagesTotalBytes":   "node0=6291456",
		"mem.numa.alloc.hit":                  "node0=602715410",
		"mem.numa.alloc.miss":                 "",
	})
}

// A host with two nodes, of which the second is not 1, and a CPU that has none.
func TestNodes(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/stat": "cpu  0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 10 20 30 40 50 60 70 80 90 100\n" +
			"cpu2 100 200 300 400\ncpu3 1 x 1 1 1\ncpu4 7 7 7 7 7\n",
		"sys/devices/system/node/node0/cpu0/":    "",
		"sys/devices/system/node/node0/cpu1/":    "",
		"sys/devices/system/node/node8/cpu2/":    "",
		"sys/devices/system/node/node8/cpu3/":    "",
		"sys/devices/system/node/node8/meminfo":  "Node 8 MemTotal: 5 kB\n",
		"sys/devices/system/node/node0/meminfo":  "Node 0 MemTotal: 6 kB\n",
		"sys/devices/system/node/node8/numastat": "local_node 3\n",
	})
	pmdas := t.TempDir()
	t.Setenv("PCP_PMDAS_DIR", pmdas)
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.pernode.cpu.user":       "node0=110 node8=1010",
		"kernel.pernode.cpu.nice":       "node0=220",
		"kernel.pernode.cpu.intr":       "node0=1430 node8=0",
		"kernel.pernode.cpu.wait.total": "node0=550 node8=10",
		"kernel.pernode.cpu.vuser":      "node0=0 node8=1010",
		"mem.numa.util.total":           "node0=6 node8=5",
		"mem.numa.alloc.local_node":     "node8=3",
		"mem.numa.max_bandwidth":        "",
	})
	conf := filepath.Join(pmdas, "linux", "bandwidth.conf")
	for i, tt := range []struct{ text, want string }{
		{"# comment\nVersion:1.0\n\nnode0:1024\nnode8: 12.5\nnode9:1\n", "node0=1024 node8=12.5"},
		{"node0:5\nVersion:1.0\nnode0:x\nnode8:-1\n", ""},
		{"Version:2.0\nnode0:5\n", ""},
	} {
		pmdatest.WriteFile(t, pmdas, "linux/bandwidth.conf", tt.text)
		// The time of a file says whether it is another one.
		if err := os.Chtimes(conf, time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
		if got := r.Values("mem.numa.max_bandwidth"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	if err := os.Remove(conf); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"mem.numa.max_bandwidth": ""})
}

func TestDistro(t *testing.T) {
	for _, tt := range []struct{ file, text, want string }{
		{"debian_version", "bookworm/sid\n", "Debian bookworm/sid"},
		{"debian_version", "", "?"},
		{"lsb-release", "DISTRIB_ID=Arch\nx\n", "Arch"},
		{"lsb-release", "DISTRIB_ID = Arch", "Arch"},
		{"os-release", "NAME=x\n", "?"},
	} {
		root := pmdatest.Tree(t, map[string]string{"etc/" + tt.file: tt.text})
		newRig(t, Options{Root: root}).Want(map[string]string{"kernel.uname.distro": tt.want})
	}
}
