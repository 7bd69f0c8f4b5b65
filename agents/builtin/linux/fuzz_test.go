package linux

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// fuzzed are the files that FuzzFiles writes, with prefixes of their metrics.
var fuzzed = []struct{ file, metrics string }{
	{"proc/loadavg", "kernel.all."},
	{"proc/stat", "kernel. hinv.ncpu"},
	{"proc/meminfo", "mem. hinv.physmem hinv.hugepagesize"},
	{"proc/diskstats", "disk. zram. hinv.ndisk hinv.map.dmname hinv.map.mdname"},
	{"proc/partitions", "disk.dev. disk.partitions.capacity disk.dm.capacity disk.md.capacity disk.wwid.capacity"},
	{"proc/net/dev", "network.interface. network.all. hinv.ninterface"},
	{"proc/net/if_inet6", "network.interface.ipv6"},
	{"proc/cpuinfo", "hinv.cpu."},
	{"sys/devices/system/cpu/cpu0/cpufreq/stats/time_in_state", "hinv.cpu.frequency"},
	{"sys/block/vda/queue/scheduler", "disk.dev.scheduler"},
	{"sys/block/vda/wwid", "hinv.map.scsi_id disk.wwid."},
	{"sys/block/zram0/mm_stat", "zram.mm_stat."},
	{"sys/block/md0/md/array_state", "disk.md.status"},

	{"proc/uptime", "kernel.all.uptime kernel.all.idletime"},
	{"proc/locks", "vfs.locks"},
	{"proc/vmstat", "mem.vmstat. swap."},
	{"proc/pressure/io", "kernel.all.pressure.io"},
	{"run/utmp", "kernel.all.n"},
	{"proc/sys/fs/file-nr", "vfs.files"},
	{"proc/interrupts", "kernel.all.interrupts. kernel.percpu.int"},
	{"proc/softirqs", "kernel.all.softirqs. kernel.percpu.s"},
	{"proc/zoneinfo", "mem.zoneinfo."},
	{"proc/buddyinfo", "mem.buddyinfo."},
	{"proc/slabinfo", "mem.slabinfo."},
	{"proc/swaps", "swapdev."},
	{"proc/tty/driver/serial", "tty."},
	{"proc/scsi/scsi", "hinv.map.scsi"},
	{"proc/sysvipc/shm", "ipc.shm"},
	{"proc/sysvipc/msg", "ipc.msg"},
	{"proc/sysvipc/sem", "ipc.sem"},
	{"proc/sys/kernel/sem", "ipc.sem"},
	{"etc/debian_version", "kernel.uname.distro"},
	{"sys/devices/system/node/node0/meminfo", "mem.numa."},
	{"sys/kernel/debug/extfrag/unusable_index", "sysfs."},

	{"sys/class/net/eth0/speed", "network.interface.speed network.interface.baudrate"},
	{"sys/class/net/eth0/flags", "network.interface.up network.interface.running"},
	{"proc/net/snmp", "network.ip. network.icmp network.tcp. network.udp"},
	{"proc/net/snmp6", "network.ip6. network.icmp6. network.udp6. network.udplite6."},
	{"proc/net/netstat", "network.ip. network.tcp. network.mptcp."},
	{"proc/1/mounts", "filesys.mountdir filesys.readonly filesys.capacity tmpfs.capacity hinv.nfilesys"},
	{"proc/net/rpc/nfs", "rpc.client. nfs.client. nfs3.client. nfs4.client."},
	{"proc/net/rpc/nfsd", "rpc.server. nfs.server. nfs3.server. nfs4.server."},
	{"proc/fs/nfsd/pool_threads", "nfs.server.threads."},
	{"proc/fs/nfsd/pool_stats", "nfs.server.threads."},
	{"sys/class/fc_host/host0/statistics/rx_words", "fchost."},
	{"sys/class/scsi_tape/st0/stats/io_ns", "tape."},
	{"proc/net/tcp", "network.tcpconn."},
	{"proc/net/raw", "network.rawconn."},
	{"proc/net/udp6", "network.udpconn6."},
	{"proc/net/unix", "network.unix."},
	{"proc/net/sockstat", "network.sockstat."},
	{"proc/net/softnet_stat", "network.softnet."},

	{"proc/fs/nfsd/clients/1/info", "nfs4.server."},
	{"proc/fs/nfsd/clients/1/states", "nfs4.server."},
	{"sys/kernel/debug/vmmemctl", "mem.vmmemctl."},
	{"sys/kernel/debug/hv-balloon", "hyperv."},
	{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "mem.hugepages."},
	{"sys/module/zswap/parameters/enabled", "sysfs.module."},
	{"sys/block/vda/device/model", "hinv.disk."},
}

// FuzzFiles replaces the text of a file. The values of an agent do not depend on
// what it has read before; only ids may.
func FuzzFiles(f *testing.F) {
	seeds := map[string]string{
		"proc/loadavg":                  "4.10 5.53 3.79 4/184 10805\n",
		"proc/stat":                     "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4\nintr 5\n",
		"proc/meminfo":                  "MemTotal:       24684092 kB\nMemFree: 1 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n",
		"proc/diskstats":                " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 253 0 dm-0 1 2 3\n 9 0 md0 1\n 8 1 sda1 1 2\n 252 0 zram0 1\n",
		"proc/partitions":               "major minor  #blocks  name\n\n 254        0  268435456 vda\n",
		"proc/net/dev":                  netDev("lo", "eth0"),
		"proc/net/if_inet6":             "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n",
		"proc/cpuinfo":                  "processor\t: 0\nmodel\t: 2\nflags\t: a b\n\nprocessor\t: 1\ncpu MHz : 2.5\n",
		"sys/block/vda/queue/scheduler": "none [mq-deadline]\n",
		"sys/block/vda/wwid":            "naa.5000\n",
		"sys/block/zram0/mm_stat":       "1 2 3 4 5 6 7 8 9\n",
		"sys/block/md0/md/array_state":  "clean\n",
		"sys/class/net/eth0/speed":      "1000\n",
		"sys/class/net/eth0/flags":      "0x1003\n",

		"proc/uptime":                             "17842.13 14558.39\n",
		"proc/locks":                              "1: POSIX  ADVISORY  READ  5433 08:01:7864448 128 128\n1: -> POSIX  ADVISORY  WRITE 12 08:01:78 0 EOF\n",
		"proc/vmstat":                             "nr_free_pages 1573021\npswpin 5\npgsteal_kswapd 7\npgsteal_direct 8\n",
		"proc/pressure/io":                        "some avg10=0.04 avg60=0.56 avg300=0.70 total=131390267\nfull avg10=0.00 avg60=0.01 avg300=0.00 total=35361059\n",
		"run/utmp":                                utRecord(7, "root") + utRecord(2, "reboot"),
		"proc/sys/fs/file-nr":                     "982\t0\t2466177\n",
		"etc/debian_version":                      "12.11\n",
		"sys/devices/system/node/node0/meminfo":   "Node 0 MemTotal:       10840276 kB\nNode 0 HugePages_Free:     1\n",
		"sys/kernel/debug/extfrag/unusable_index": "Node 0, zone   Normal 0.000 0.012 0.024\n",

		"sys/devices/system/cpu/cpu0/cpufreq/stats/time_in_state": "3600000 2089\n3400000 136\n",
		"proc/net/snmp":                               "Ip: Forwarding InReceives\nIp: 2 7\nIcmpMsg: InType3 OutType8\nIcmpMsg: 1 2\nTcp: MaxConn InErrs\nTcp: -1 3\n",
		"proc/net/snmp6":                              "Ip6InReceives \t5\nUdp6NoPorts 6\n",
		"proc/net/netstat":                            "TcpExt: SyncookiesSent TW\nTcpExt: 3 4\nIpExt: InOctets\nIpExt: 6\nMPTcpExt: OFOQueue\nMPTcpExt: 7\n",
		"proc/net/rpc/nfs":                            "rpc 5 1 2\nproc2 18 1 2 3\nproc4 3 1 2 3\n",
		"proc/net/rpc/nfsd":                           "ra 1 2 3\nth 8 0 0.1\nproc4ops 3 1 2 3\n",
		"proc/fs/nfsd/pool_threads":                   "8\n",
		"proc/fs/nfsd/pool_stats":                     "# pool\n0 1 2 3 4\n",
		"sys/class/fc_host/host0/statistics/rx_words": "0x2f\n",
		"sys/class/scsi_tape/st0/stats/io_ns":         "7\n",
		"proc/1/mounts":                               "/dev/vda1 / ext4 rw 0 0\ntmpfs /run tmpfs ro 0 0\n",
		"proc/net/tcp":                                "sl local rem st\n 0: 0:1 0:0 0A 0\n 1: 0:1 0:0 01 0\n",
		"proc/net/raw":                                "sl local rem st\n 0: 0:1 0:0 07 0\n",
		"proc/net/udp6":                               "sl local rem st\n 0: 0:1 0:0 07 0\n",
		"proc/net/unix":                               "Num RefCount Protocol Flags Type St\n0: 2 0 0 0001 01 9\n1: 2 0 0 0001 03 9\n2: 2 0 0 0002 01\n",
		"proc/net/sockstat":                           "sockets: used 28\nTCP: inuse 5 orphan 0 tw 218 alloc 5 mem 57\n",
		"proc/fs/nfsd/clients/1/info":                 since72["proc/fs/nfsd/clients/4/info"],
		"proc/fs/nfsd/clients/1/states":               since72["proc/fs/nfsd/clients/4/states"],
		"proc/fs/nfsd/clients/2/info":                 "clientid: 0x2\n",
		"proc/fs/nfsd/clients/2/states":               "- 0x1: { type: open, access: r, superblock: \"fd:00:1\", filename: \"/f\" }\n",
		"sys/kernel/debug/vmmemctl":                   since72["sys/kernel/debug/vmmemctl"],
		"sys/kernel/debug/hv-balloon":                 since72["sys/kernel/debug/hv-balloon"],
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "10\n",
		"sys/module/zswap/parameters/enabled":                   "Y\n",
		"sys/block/vda/device/model":                            "QEMU HARDDISK   \n",
		"proc/net/softnet_stat":                                 "01 02 03 0 0 0 0 0 9 a b c 00000000\n01 02 03 0 0 0 0 0 9 a b c 00000001\n",
	}
	for i, z := range fuzzed {
		f.Add(byte(i), "", seeds[z.file])
		f.Add(byte(i), seeds[z.file], seeds[z.file][:len(seeds[z.file])/2])
	}
	used, fresh := pmdatest.Tree(f, seeds), pmdatest.Tree(f, seeds)
	f.Fuzz(func(t *testing.T, which byte, before, text string) {
		z := fuzzed[int(which)%len(fuzzed)]
		values := func(root string, texts ...string) map[string]string {
			r := newHarness(t, Options{Root: root, CacheDir: "/dev/null/none", Access: true})
			var m map[string]string
			for _, text := range texts {
				pmdatest.WriteFile(t, root, z.file, text)
				m = make(map[string]string)
				for name := range r.Metrics {
					if slices.ContainsFunc(strings.Fields(z.metrics), func(p string) bool { return strings.HasPrefix(name, p) }) {
						words := strings.Fields(r.Values(name))
						slices.Sort(words) // ids may differ, and with them the order
						m[name] = strings.Join(words, " ")
					}
				}
			}
			pmdatest.WriteFile(t, root, z.file, seeds[z.file])
			return m
		}
		got, want := values(used, before, text), values(fresh, text)
		for _, m := range []map[string]string{got, want} { // depends on the value before: decreases are hidden
			delete(m, "kernel.all.cpu.wait.total")
			delete(m, "kernel.percpu.cpu.wait.total")
			delete(m, "kernel.pernode.cpu.wait.total")
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: after %q, %q\n gives %v\nbut a new agent has %v", z.file, before, text, got, want)
		}
	})
}
