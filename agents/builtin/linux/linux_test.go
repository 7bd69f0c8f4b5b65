package linux

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

func TestTables(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/vm"})
	if len(r.Metrics) < 620 {
		t.Errorf("%d metrics", len(r.Metrics))
	}
	a, err := Open(60, Options{Root: "testdata/vm", CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r.CheckNamesAndHelp("../../../etc/root", a)
}

func TestAgent(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/vm"})
	r.CheckAgent()
}

// testdata/vm was recorded on a virtual machine with two CPUs. It has only the first
// lines of /proc/slabinfo.
func TestRecorded(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/vm", PageSize: 4096}, addr4("lo", "127.0.0.1"), addr4("eth0", "192.0.2.2"))
	r.Want(map[string]string{
		"kernel.all.load":                      "1_minute=4.1 5_minute=5.53 15_minute=3.79",
		"kernel.all.cpu.user":                  "4821050",
		"kernel.all.cpu.nice":                  "3463780",
		"kernel.all.cpu.sys":                   "3423010",
		"kernel.all.cpu.idle":                  "12398730",
		"kernel.all.cpu.wait.total":            "36150",
		"kernel.all.cpu.intr":                  "230010",
		"kernel.all.cpu.irq.hard":              "0",
		"kernel.all.cpu.irq.soft":              "230010",
		"kernel.all.cpu.steal":                 "2770",
		"kernel.all.cpu.vuser":                 "4821050",
		"kernel.percpu.cpu.user":               "cpu0=2405020 cpu1=2416030",
		"kernel.percpu.cpu.steal":              "cpu0=1320 cpu1=1450",
		"hinv.ncpu":                            "2",
		"hinv.ndisk":                           "1",
		"hinv.ninterface":                      "4",
		"hinv.nnode":                           "1",
		"hinv.node.online":                     "node0=1",
		"hinv.physmem":                         "24105",
		"hinv.pagesize":                        "4096",
		"hinv.hugepagesize":                    "2097152",
		"hinv.map.cpu_num":                     "cpu0=0 cpu1=1",
		"hinv.map.cpu_node":                    "cpu0=0 cpu1=0",
		"hinv.map.scsi_id":                     "vda=unknown",
		"hinv.map.dmname":                      "",
		"hinv.map.mdname":                      "",
		"hinv.cpu.clock":                       "cpu0=2596.122 cpu1=2596.122",
		"hinv.cpu.vendor":                      "cpu0=AuthenticAMD cpu1=AuthenticAMD",
		"hinv.cpu.model":                       "cpu0=2 cpu1=2",
		"hinv.cpu.model_name":                  "cpu0=AMD EPYC cpu1=AMD EPYC",
		"hinv.cpu.stepping":                    "cpu0=1 cpu1=1",
		"hinv.cpu.cache":                       "cpu0=1024 cpu1=1024",
		"hinv.cpu.cache_alignment":             "cpu0=64 cpu1=64",
		"hinv.cpu.bogomips":                    "cpu0=5192.24 cpu1=5192.24",
		"hinv.cpu.online":                      "cpu0=1 cpu1=1",
		"hinv.cpu.frequency_scaling.max":       "",
		"hinv.cpu.thermal_throttle.core.count": "cpu0=0 cpu1=0",
		"mem.physmem":                          "24684092",
		"mem.util.used":                        "3168504",
		"mem.util.available":                   "23806748",
		"mem.util.highTotal":                   "",
		"mem.util.corrupthardware":             "",
		"mem.util.vmallocTotal":                "34359738367",
		"mem.util.directMap1G":                 "25165824",
		"disk.dev.read":                        "vda=575905",
		"disk.dev.total":                       "vda=1806350",
		"disk.dev.read_bytes":                  "vda=7833185",
		"disk.dev.total_rawactive":             "vda=505133",
		"disk.dev.discard":                     "vda=761024",
		"disk.dev.discard_bytes":               "vda=16024944",
		"disk.dev.scheduler":                   "vda=mq-deadline",
		"disk.dev.capacity":                    "vda=268435456",
		"network.interface.in.bytes":           "lo=6210894957 ifb0=0 ifb1=0 eth0=150572056",
		"network.interface.total.bytes":        "lo=12421789914 ifb0=0 ifb1=0 eth0=151362297",
		"network.interface.mtu":                "lo=65536 ifb0=1500 ifb1=1500 eth0=1400",
		"network.interface.speed":              "", // -1, -1 and read errors
		"network.interface.baudrate":           "",
		"network.interface.duplex":             "",
		"network.interface.up":                 "lo=1 ifb0=0 ifb1=0 eth0=1",
		"network.interface.running":            "lo=1 ifb0=0 ifb1=0 eth0=1",
		"network.interface.type":               "lo=772 ifb0=1 ifb1=1 eth0=1",
		"network.interface.virtual":            "lo=1 ifb0=1 ifb1=1 eth0=0",
		"network.interface.wireless":           "lo=0 ifb0=0 ifb1=0 eth0=0",
	})
	// The order of these instances is that of the directory.
	for name, want := range map[string][]string{
		"network.interface.inet_addr":  {"lo=127.0.0.1", "eth0=192.0.2.2"},
		"network.interface.ipv6_addr":  {"lo=::1/128", "eth0=fd00::2/64"},
		"network.interface.ipv6_scope": {"lo=Host", "eth0=Global"},
		"network.interface.hw_addr":    {"lo=00:00:00:00:00:00", "eth0=02:fc:00:00:00:01"},
	} {
		got := " " + r.Values(name) + " "
		for _, w := range want {
			if !strings.Contains(got, " "+w+" ") {
				t.Errorf("%s is %q, without %s", name, got, w)
			}
		}
	}
}

// On a host without any of the files there are only the values that pmdalinux has,
// too, and no errors.
func TestEmptyHost(t *testing.T) {
	r := newHarness(t, Options{Root: t.TempDir(), PageSize: 4096})
	has := map[string]string{
		"hinv.ncpu": "0", "hinv.ndisk": "0", "hinv.ninterface": "0", "hinv.nnode": "1", "hinv.nfilesys": "0", "hinv.ntape": "0", "hinv.nfchost": "0",
		"rpc.server.ra_size": "0", "rpc.server.ra_hits": "0", "rpc.server.ra_misses": "0",
		"hinv.pagesize": "4096", "hinv.node.online": "node0=1",
		"network.tcp.maxconn": "18446744073709551615",
		"kernel.all.hz":       "100", "kernel.all.nusers": "0", "kernel.all.nroots": "0", "kernel.all.nsessions": "0",
		"swap.in": pdu.ErrnoAppVersion.Error(), "swap.out": pdu.ErrnoAppVersion.Error(),
		"kernel.uname.distro": "?", "pmda.version": os.Getenv("PCP_VERSION"),
	}
	for name, m := range r.Metrics {
		if strings.HasPrefix(name, "disk.all.") {
			has[name] = "0"
		}
		switch m.Cluster {
		case 11, 19, 58, 73, 76, 77, 78, 79, 80, 81, 90: // sockets, IPv6, sums of interfaces
			has[name] = "0"
		case 57: // softnet
			if m.InDom == nil {
				has[name] = pdu.ErrnoAppVersion.Error()
			}
		}
	}
	for _, name := range []string{
		"hinv.machine", "pmda.uname", "kernel.uname.release", "kernel.uname.version", "kernel.uname.sysname",
		"kernel.uname.machine", "kernel.uname.nodename",
	} {
		if has[name] = r.Values(name); has[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	for name := range r.Metrics {
		if got := r.Values(name); got != has[name] {
			t.Errorf("%s is %q, want %q", name, got, has[name])
		}
	}
}

// A file that cannot be read is an error for its own metrics only.
func TestUnreadable(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/stat/":    "",
		"proc/loadavg":  "1 2 3 1/2 3\n",
		"proc/meminfo/": "",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.all.load":        "1_minute=1 5_minute=2 15_minute=3",
		"kernel.percpu.cpu.user": pdu.ErrnoGeneric.Error(),
		"kernel.all.cpu.user":    pdu.ErrnoGeneric.Error(),
		"mem.physmem":            pdu.ErrnoGeneric.Error(),
	})
}

// The files of this test were recorded later than those of TestRecorded.
func TestRecordedKernel(t *testing.T) {
	newHarness(t, Options{Root: "testdata/vm", PageSize: 4096}).Want(map[string]string{
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
