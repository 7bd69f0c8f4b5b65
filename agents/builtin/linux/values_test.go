package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// The trees of this file are composed from the formats that the kernel
// documents.

// A line of the kernel in which one word is broken costs the metrics of that
// word; a line that is missing costs its own.
func TestBrokenLines(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/loadavg": "0.50 x 1e400 1/2 3\n",
		"proc/stat":    "cpu  10 x 30 40 50 60 70 80 90 100\ncpu0 1 2\ncpuX 1 2 3\ncpu2\ncpu3 7 18446744073709551616 9 10\ncpu3 8 8 8 8\nintr 5\ncpu9 1 2 3 4\n",
		"proc/meminfo": "MemTotal: 100 kB\nMemFree 5 kB\nCached: x kB\nBuffers:\nDirty: 18446744073709551615 kB\n: 7\nHugePages_Total: 3\nWriteback:9",
		"proc/diskstats": "   8 0 sda 1 2 3 4 5 x 7 8 9 10 11\n" + // before Linux 4.18
			"   8 16 sdb 1 2 3\n" +
			"   8 x sdc 1 2 3 4 5 6 7 8 9 10 11\n" +
			"   8 32 sdd 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n" + // before 5.5
			"   8\n\n   8 0 sda 9 9 9\n",
		"proc/partitions": "major minor  #blocks  name\n\n   8        0      70 sda\n   8        1      71 sda1\n 8 16 x sdb\n 8 32\n 8 48 0 sdd\n",
		"proc/net/dev":    "Inter-| x\n face | y\n  lo:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n eth0: 1 2 x 4\n noline\n:1\n../x: 1\n lo: 5\n",
	})
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.all.load":              "1_minute=0.5",
		"kernel.all.cpu.user":          "100",
		"kernel.all.cpu.nice":          "",
		"kernel.all.cpu.vnice":         "",
		"kernel.all.cpu.vuser":         "0", // guest is ahead of user
		"kernel.all.cpu.intr":          "1300",
		"kernel.all.cpu.guest_nice":    "1000",
		"kernel.percpu.cpu.user":       "cpu0=10 cpu3=70",
		"kernel.percpu.cpu.nice":       "cpu0=20",
		"kernel.percpu.cpu.sys":        "cpu3=90",
		"kernel.percpu.cpu.steal":      "cpu0=0 cpu3=0",
		"hinv.ncpu":                    "2",
		"mem.physmem":                  "100",
		"mem.util.free":                "",
		"mem.util.used":                "",
		"mem.util.cached":              "",
		"mem.util.bufmem":              "",
		"mem.util.other":               "",
		"mem.util.dirty":               "18446744073709551615",
		"mem.util.writeback":           "9",
		"mem.util.hugepagesTotal":      "3",
		"mem.util.hugepagesTotalBytes": "",
		"disk.dev.read":                "sda=1 sdb=1 sdd=1",
		"disk.dev.write":               "sda=5 sdd=5",
		"disk.dev.write_merge":         "sdd=6",
		"disk.dev.discard_bytes":       "sda=0 sdb=0 sdd=7",
		"disk.dev.flush":               "sda=0 sdb=0 sdd=0",
		"disk.dev.capacity":            "sda=70",
		"disk.dev.scheduler":           "sda=unknown sdb=unknown sdd=unknown",
		"hinv.ndisk":                   "3",
		"network.interface.in.bytes":   "lo=1 eth0=1 ../x=1",
		"network.interface.in.errors":  "lo=3",
		"network.interface.in.drops":   "lo=4 eth0=4",
		"network.interface.out.bytes":  "lo=9",
		"network.interface.mtu":        "",
		"hinv.ninterface":              "3",
	})
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
		"sys/block/dasda/device/wwid":       "other\n",
		"sys/block/dm-0/dm/name":            "vg0-root\n",
		"sys/block/dm-1/dm/name":            "vg0-swap\n",
		"dev/md/data":                       "-> ../md127",
		"dev/md/126":                        "-> ../md126",
		"dev/md/.x":                         "-> ../md126",
		"dev/mapper/control":                "",
	})
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{
		"disk.dev.read":      "sda=100 nvme0n1=102 mmcblk0=104 cciss/c0d0=106 nbd3=118 rbd0=120 xvda=122 hda=124 dasda=126",
		"disk.dev.scheduler": "sda=cfq nvme0n1=none mmcblk0=unknown cciss/c0d0=unknown nbd3=unknown rbd0=unknown xvda=unknown hda=unknown dasda=unknown",
		"hinv.map.scsi_id":   "sda=3600508b1001c1d2d3 nvme0n1=20025385b71b00a2c mmcblk0=unknown cciss/c0d0=1ATA disk 1 nbd3=unknown rbd0=unknown xvda=unknown hda=unknown dasda=other",
		"hinv.ndisk":         "9",
		"hinv.map.dmname":    "vg0-root=dm-0 vg0-swap=dm-1",
		"hinv.map.mdname":    "md0=md0 data=md127 md126=md126",
	})
}

func TestInterfaces(t *testing.T) {
	const zeros = ": 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/dev":                           " eth0" + zeros + "wlan0" + zeros + " bond0" + zeros + " eth1" + zeros + "veth9" + zeros,
		"sys/class/net/eth0/speed":               "10000\n",
		"sys/class/net/eth0/duplex":              "full\n",
		"sys/class/net/eth0/flags":               "0x1003\n",
		"sys/class/net/eth0/operstate":           "up\n",
		"sys/class/net/eth0/type":                "1\n",
		"sys/class/net/eth0/mtu":                 "9000\n",
		"sys/class/net/eth1/speed":               "-1\n",
		"sys/class/net/eth1/duplex":              "unknown\n",
		"sys/class/net/eth1/flags":               "0x1003\n",
		"sys/class/net/eth1/operstate":           "down\n",
		"sys/class/net/wlan0/wireless/":          "",
		"sys/class/net/wlan0/flags":              "0x1002\n",
		"sys/class/net/wlan0/operstate":          "up\n",
		"sys/class/net/wlan0/address":            "02:00:00:00:00:01\n",
		"sys/class/net/bond0/speed":              "4294967295\n",
		"sys/class/net/bond0/duplex":             "half\n",
		"sys/devices/virtual/net/bond0/":         "",
		"sys/devices/virtual/net/veth9/tx_queue": "",
		"proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80 lo\n" +
			"fe80000000000000020000fffe000001 02 40 20 80 eth0\n" +
			"20010db8000000000000000000000001 02 40 00 80 eth0\n" +
			"fec00000000000000000000000000001 03 30 40 80 wlan0\n" +
			"00000000000000000000ffffc0000201 04 80 80 80 bond0\n" +
			"00000000000000000000000000000000 04 81 00 80 eth1\n" + // broken
			"0 04 80 00 80 eth1\n" +
			"fe80000000000000020000fffe000002 05 0a 99 80 eth1:2\n",
	})
	r := newRig(t, Options{Root: root}, addr4("eth0", "192.0.2.1"), addr4("eth0", "192.0.2.2"), addr4("eth0:1", "198.51.100.1"))
	r.Want(map[string]string{
		"network.interface.speed":    "eth0=1192.0929",
		"network.interface.baudrate": "eth0=1250000000",
		"network.interface.duplex":   "eth0=2 bond0=1",
		"network.interface.up":       "eth0=1 wlan0=0 bond0=0 eth1=1 veth9=0",
		"network.interface.running":  "eth0=1 wlan0=0 bond0=0 eth1=0 veth9=0",
		"network.interface.mtu":      "eth0=9000",
		"network.interface.type":     "eth0=1 wlan0=0 bond0=0 eth1=0 veth9=0",
		"network.interface.wireless": "eth0=0 wlan0=1 bond0=0 eth1=0 veth9=0",
		"network.interface.virtual":  "eth0=0 wlan0=0 bond0=1 eth1=0 veth9=1",
	})
	for name, want := range map[string][]string{
		"network.interface.hw_addr":    {"wlan0=02:00:00:00:00:01"},
		"network.interface.inet_addr":  {"eth0=192.0.2.1", "eth0:1=198.51.100.1"},
		"network.interface.ipv6_addr":  {"lo=::1/128", "eth0=2001:db8::1/64", "wlan0=fec0::1/48", "bond0=::ffff:192.0.2.1/128", "eth1:2=fe80::200:ff:fe00:2/10"},
		"network.interface.ipv6_scope": {"lo=Host", "eth0=Global", "wlan0=Site", "bond0=Compat", "eth1:2=Unknown"},
	} {
		got := strings.Fields(r.Values(name))
		if len(got) != len(want) {
			t.Errorf("%s\n got %q\nwant %q in any order", name, got, want)
		}
		for _, w := range want {
			if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
				t.Errorf("%s is %q, without %s", name, got, w)
			}
		}
	}
}

func TestCPUs(t *testing.T) {
	cpu := func(n string) string { return "sys/devices/system/cpu/cpu" + n + "/" }
	root := pmdatest.Tree(t, map[string]string{
		"proc/stat":                                                  "cpu  6 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\ncpu10 3 0 0 0\n", // cpu1 is offline
		"sys/devices/system/node/node0/cpu0/":                        "",
		"sys/devices/system/node/node0/cpu1/":                        "",
		"sys/devices/system/node/node8/cpu2/":                        "",
		"sys/devices/system/node/node8/cpulist":                      "",
		"sys/devices/system/node/node8/online":                       "0\n",
		"sys/devices/system/node/has_cpu":                            "0,8\n",
		cpu("2") + "online":                                          "1\n",
		cpu("0") + "cpufreq/stats/time_in_state":                     "3600000 20\n2400000 10\n1000 x\n1200000 70\n",
		cpu("2") + "cpufreq/cpuinfo_max_freq":                        "3600000\n",
		cpu("2") + "cpufreq/cpuinfo_min_freq":                        "800000\n",
		cpu("2") + "cpufreq/scaling_cur_freq":                        "1234567\n",
		cpu("2") + "thermal_throttle/core_throttle_count":            "4\n",
		cpu("2") + "thermal_throttle/core_throttle_total_time_ms":    "5\n",
		cpu("2") + "thermal_throttle/package_throttle_count":         "6\n",
		cpu("2") + "thermal_throttle/package_throttle_total_time_ms": "7\n",
		// x86: the second block is of cpu2.
		"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\nstepping\t: 7\ncpu MHz\t\t: 2100.000\ncache size\t: 36608 KB\nflags\t\t: fpu vme\nbogomips\t: 4200.00\ncache_alignment\t: 64\n\n" +
			"processor\t: 2\nmodel name\t: other\ncache size\t: big\nbogomips\t: x\nflags:\n\nprocessor\t: 3\nmodel\t: nobody's\n",
	})
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.percpu.cpu.user":                  "cpu0=10 cpu2=20 cpu10=30",
		"hinv.ncpu":                               "3",
		"hinv.nnode":                              "2",
		"hinv.node.online":                        "node0=1 node8=0",
		"hinv.map.cpu_num":                        "cpu0=0 cpu2=2 cpu10=10",
		"hinv.map.cpu_node":                       "cpu0=0 cpu2=8",
		"hinv.cpu.online":                         "cpu0=1 cpu2=1 cpu10=1",
		"hinv.cpu.vendor":                         "cpu0=GenuineIntel cpu2=unknown cpu10=unknown",
		"hinv.cpu.model":                          "cpu0=85 cpu2=other cpu10=unknown",
		"hinv.cpu.model_name":                     "cpu0=Intel(R) Xeon(R) cpu2=other cpu10=unknown",
		"hinv.cpu.stepping":                       "cpu0=7 cpu2=unknown cpu10=unknown",
		"hinv.cpu.flags":                          "cpu0=fpu vme cpu2=unknown cpu10=unknown",
		"hinv.cpu.cache":                          "cpu0=36608",
		"hinv.cpu.cache_alignment":                "cpu0=64",
		"hinv.cpu.bogomips":                       "cpu0=4200",
		"hinv.cpu.clock":                          "cpu0=2100 cpu2=1234.567",
		"hinv.cpu.frequency_scaling.count":        "cpu0=180000 cpu2=1234",
		"hinv.cpu.frequency_scaling.time":         "cpu0=100",
		"hinv.cpu.frequency_scaling.max":          "cpu0=3600 cpu2=3600",
		"hinv.cpu.frequency_scaling.min":          "cpu0=1200 cpu2=800",
		"hinv.cpu.thermal_throttle.core.count":    "cpu0=0 cpu2=4 cpu10=0",
		"hinv.cpu.thermal_throttle.core.time":     "cpu0=0 cpu2=5 cpu10=0",
		"hinv.cpu.thermal_throttle.package.count": "cpu0=0 cpu2=6 cpu10=0",
		"hinv.cpu.thermal_throttle.package.time":  "cpu0=0 cpu2=7 cpu10=0",
	})

	// The same agent, when the machine has become others.
	for _, tt := range []struct{ name, stat, info, model, stepping string }{{
		"arm: one block before the CPUs", "cpu 1 0 0 0\ncpu0 1 0 0 0\n",
		"Processor\t: ARMv7 rev 4\nFeatures\t: half thumb\nprocessor\t: 0\nBogoMIPS\t: 38.40\n",
		"cpu0=unknown", "cpu0=unknown",
	}, {
		"arm64: one block behind the CPUs", "cpu 2 0 0 0\ncpu0 1 0 0 0\ncpu1 1 0 0 0\n",
		"processor\t: 0\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU revision\t: 3\n",
		"cpu0=0x0 cpu1=0x0", "cpu0=3 cpu1=3",
	}, {
		"s390: numbers before the colon", "cpu 2 0 0 0\ncpu0 1 0 0 0\ncpu1 1 0 0 0\n",
		"vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 1\nprocessor 1: version = FF,  identification = 2\n",
		"cpu0=unknown cpu1=unknown", "cpu0=unknown cpu1=unknown",
	}, {
		"a kernel for one CPU", "cpu  7 0 0 0\nintr 1\n",
		"processor : 0\nmodel : one\nrevision : 2.0\n",
		"cpu0=one", "cpu0=2.0",
	}} {
		pmdatest.WriteFile(t, root, "proc/stat", tt.stat)
		pmdatest.WriteFile(t, root, "proc/cpuinfo", tt.info)
		if model, stepping := r.Values("hinv.cpu.model"), r.Values("hinv.cpu.stepping"); model != tt.model || stepping != tt.stepping {
			t.Errorf("%s: model %q, stepping %q, want %q, %q", tt.name, model, stepping, tt.model, tt.stepping)
		}
	}
	r.Want(map[string]string{"kernel.percpu.cpu.user": "cpu0=70", "hinv.ncpu": "1"})
}

// Other frequencies of the clock than 100, as in recordings of other machines.
func TestHertz(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu  1024 1 1025 18446744073709551615\n"})
	r := newRig(t, Options{Root: root, Hertz: 1024})
	r.Want(map[string]string{
		"kernel.all.cpu.user": "1000",
		"kernel.all.cpu.nice": "0",
		"kernel.all.cpu.sys":  "1000",
		"kernel.all.cpu.idle": "18014398509481983999",
	})
}

// iowait may go back, as the kernel says, but not far.
func TestWaitGoesUp(t *testing.T) {
	root := pmdatest.Tree(t, nil)
	r := newRig(t, Options{Root: root})
	for _, tt := range []struct{ ticks, want int }{
		{500, 5000}, {499, 5000}, {401, 5000}, {502, 5020}, {402, 4020}, {50, 500}, {49, 500}, {0, 500}, {51, 510},
	} {
		pmdatest.WriteFile(t, root, "proc/stat", fmt.Sprintf("cpu 0 0 0 0 %d\ncpu0 0 0 0 0 %[1]d\n", tt.ticks))
		r.Want(map[string]string{
			"kernel.all.cpu.wait.total":    fmt.Sprint(tt.want),
			"kernel.percpu.cpu.wait.total": fmt.Sprint("cpu0=", tt.want),
		})
	}
}
