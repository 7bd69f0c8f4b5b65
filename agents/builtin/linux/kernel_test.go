package linux

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

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
	newHarness(t, Options{Root: root}).Want(map[string]string{
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
		"vfs.locks.posix.count":               "3", // one line has no mode
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

// A kernel that has PSI switched off, as RHEL's has, can open the files, and each read is
// EOPNOTSUPP. Another failure is an error. The files are links to files whose read fails so.
func TestPressureOff(t *testing.T) {
	var off string
	all, _ := filepath.Glob("/sys/class/net/*/phys_port_name")
	for _, path := range all {
		if _, err := os.ReadFile(path); errors.Is(err, syscall.EOPNOTSUPP) {
			off = path
		}
	}
	if off == "" {
		t.Skip("no interface has a phys_port_name that is not supported")
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{
		"proc/pressure/cpu": "-> " + off, "proc/pressure/io": "-> /proc/self/mem", "proc/pressure/memory": "some total=5\n",
		"proc/pressure/irq": "-> /sys/class/net/lo/speed",
	})})
	for range 2 {
		r.Want(map[string]string{
			"kernel.all.pressure.cpu.some.avg":      "",
			"kernel.all.pressure.cpu.some.total":    "",
			"kernel.all.pressure.memory.some.total": "5",
			"kernel.all.pressure.irq.full.total":    pdu.ErrnoEINVAL.Error(),
			"kernel.all.pressure.io.some.avg":       pdu.Errno(-int32(syscall.EIO)).Error(),
			"kernel.all.pressure.io.full.total":     pdu.Errno(-int32(syscall.EIO)).Error(),
		})
	}
}
