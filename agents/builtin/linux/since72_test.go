package linux

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// since72 has the files of the metrics that are new in PCP 6.3 to 7.2.
var since72 = map[string]string{
	"proc/meminfo": "ShmemHugePages: 103 kB\nShmemPmdMapped: 104 kB\nFileHugePages: 105 kB\nFilePmdMapped: 106 kB\n" +
		"CmaTotal: 107 kB\nCmaFree: 108 kB\nUnaccepted: 109 kB\nZswap: 110 kB\n" +
		"Zswapped: 111 kB\nShadowCallStack: 112 kB\nPercpu: 113 kB\nKReclaimable: 114 kB\n" +
		"Hugetlb: 115 kB\n",
	"proc/vmstat": "pgsteal_anon 121\npgscan_anon 122\npgscan_file 123\npgdemote_direct 124\n" +
		"pgdemote_khugepaged 125\npgdemote_kswapd 126\npgpromote_candidate 128\npgpromote_success 129\n" +
		"pgscan_khugepaged 130\npgsteal_khugepaged 131\npgdemote_proactive 1000\n",
	"sys/devices/system/node/node0/meminfo": "Node 0 SwapCached: 142 kB\nNode 0 KReclaimable: 143 kB\nNode 0 AnonHugePages: 144 kB\nNode 0 ShmemHugePages: 145 kB\n" +
		"Node 0 ShmemPmdMapped: 146 kB\nNode 0 FileHugePages: 147 kB\nNode 0 FilePmdMapped: 148 kB\n",
	"sys/devices/system/node/node2/meminfo": "Node 2 SwapCached: 2142 kB\nNode 2 KReclaimable: 2143 kB\nNode 2 AnonHugePages: 2144 kB\nNode 2 ShmemHugePages: 2145 kB\n" +
		"Node 2 ShmemPmdMapped: 2146 kB\nNode 2 FileHugePages: 2147 kB\nNode 2 FilePmdMapped: 2148 kB\n",
	"proc/net/snmp": "Icmp: OutRateLimitGlobal OutRateLimitHost\nIcmp: 118 119\nIp: OutTransmits\nIp: 120\n",
	"proc/net/netstat": "TcpExt: TCPPLBRehash TCPAORequired TCPAOBad TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps PAWSOldAck TSEcrRejected PAWSTimewait BeyondWindow\n" +
		"TcpExt: 149 156 157 158 159 160 174 175 176 177\n" +
		"MPTcpExt: AddAddrTx AddAddrTxDrop EchoAddTx EchoAddTxDrop RmAddrTx RmAddrTxDrop MPCurrEstab MPJoinSynBackupRx MPJoinSynAckBackupRx MPCapableEndpAttempt DSSCorruptionFallback DSSCorruptionReset MPCapableSYNTXDrop MPCapableSYNTXDisabled MPJoinSynTx MPJoinSynTxCreatSkErr MPJoinSynTxBindErr MPJoinSynTxConnectErr Blackhole MPJoinRejected MPCapableDataFallback MD5SigFallback DssFallback SimultConnectFallback FallbackFailed WinProbe\n" +
		"MPTcpExt: 150 151 152 153 154 155 161 162 163 164 165 166 167 168 169 170 171 172 173 178 179 180 181 182 183 184\n",
	"proc/net/softnet_stat": "1 0 0 0 0 0 0 0 0 0 0 1a 00000000 a 10\n" +
		"2 0 0 0 0 0 0 0 0 0 0 5 00000002 2 3\n",
	"proc/stat": "cpu  5 6 7 8\ncpu0 1 2 3 4\ncpu2 1 2 3 4\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2596123\n",

	"proc/diskstats": " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n" +
		" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11\n 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n 254 16 vdb 1 2 3 4 5 6 7 8 9 10 11\n",
	"sys/block/sda":     "-> ../devices/pci0000:00/0000:00:10.0/host2/target2:0:0/2:0:0:0/block/sda",
	"sys/block/sdb":     "-> ../devices/pci0000:80/0000:80:01.1/0000:81:00.0/host3/block/sdb",
	"sys/block/nvme0n1": "-> ../devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme0/nvme0n1",
	"sys/block/vda":     "-> ../devices/platform/a0001000.virtio_mmio/virtio0/block/vda",
	"sys/block/vdb":     "-> ../devices/pci0000:00/QEMU0002:00/virtio1/block/vdb",
	"sys/devices/pci0000:00/0000:00:10.0/host2/target2:0:0/2:0:0:0/block/sda/device":      "-> ../../../2:0:0:0",
	"sys/devices/pci0000:00/0000:00:10.0/host2/target2:0:0/2:0:0:0/model":                 "QEMU HARDDISK   \n",
	"sys/devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme0/nvme0n1/device/model": "Some SSD 980\n",

	"proc/1/mounts":                     "/dev/vda1 / ext4 rw 0 0\n/dev/mapper/vg0-home /home xfs rw 0 0\n/dev/md/data /data btrfs rw 0 0\n/dev/vdb1 /x vfat rw 0 0\n",
	"dev/mapper/vg0-home":               "-> ../dm-0",
	"dev/md/data":                       "-> ../md127",
	"dev/disk/by-uuid/9c6b3a3e-2a5e":    "-> ../../vda1",
	"dev/disk/by-uuid/aaaa-bbbb":        "-> ../../dm-0",
	"dev/disk/by-uuid/cccc-dddd":        "-> ../../md127",
	"dev/disk/by-uuid/of-a-swap-device": "-> ../../vdc",
	"dev/disk/by-uuid/no-link":          "",

	"sys/module/zswap/parameters/max_pool_percent": "20\n",
	"sys/module/zswap/parameters/enabled":          "Y\n",
	"sys/kernel/debug/vmmemctl": "current            :       100\ntarget             :       200\n\n" +
		"target             :       768 (0 failed)\nnames: x y\n",
	"sys/kernel/debug/hv-balloon": "host_version : 2.0\nstate : 3 (Initialized)\nstate : 3\npage_size : 8192\npages_added : 10\n" +
		"pages_onlined : 9\npages_ballooned : 8\ntotal_pages_committed : 7\n",

	"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":                      "10\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":                    "7\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages":                    "2\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages":                 "1\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages":           "5\n",
	"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages":                   "1\n",
	"sys/kernel/mm/hugepages/hugepages-xkB/nr_hugepages":                         "9\n",
	"sys/kernel/mm/hugepages/other/nr_hugepages":                                 "9\n",
	"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages":      "6\n",
	"sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages":    "4\n",
	"sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages":      "3\n",
	"sys/devices/system/node/node2/hugepages/hugepages-2048kB/surplus_hugepages": "2\n",

	"proc/fs/nfsd/clients/4/info": "clientid: 0x6d077c5e60a12345\naddress: \"192.0.2.36:700\"\nstatus: confirmed\nseconds from last renew: 22\n" +
		"name: \"Linux NFSv4.2 host.example\"\nminor version: 2\nImplementation domain: \"kernel.org\"\ncallback state: UP\n" +
		"callback address: \"192.0.2.36:0\"\nadmin-revoked states: 1\nsession slots: 30\nsession target slots: 64\n",
	"proc/fs/nfsd/clients/4/states": "- 0x62b3e55e00000001: { type: open, access: rw, deny: --, superblock: \"fd:00:13091\", filename: \"/home/a b\", owner: \"open id:\\x00\" }\n" +
		"- 0x62b3e55e00000002: { type: deleg, access: r, superblock: \"fc:10:13649\", filename: \"x\" }\n" +
		"- 0x62b3e55e00000003: { type: lock, superblock: \"fd:00:13091\", filename: \"/home/a b\" }\n" +
		"- 0x62b3e55e00000004: { type: layout, superblock: \"fd:00:77\", filename: \"/d/z\" }\n" +
		"- 0x5: { type: open, access: r, superblock: \"fd:00:x\", filename: \"/home/b\" }\n- 0x6: { type: open, superblock: \"fd:00\" }\nx\n",
	"proc/fs/nfsd/clients/12/info":   "clientid: 0x9\nname: \"BSD of A\"\ncallback state: DOWN\n",
	"proc/fs/nfsd/clients/12/states": "- 0x7: { type: open, access: -w, superblock: \"08:01:13091\", filename: \"",
	"proc/fs/nfsd/clients/13/info":   "address: \"192.0.2.1:1\"\n",
	"proc/fs/nfsd/clients/x/info":    "clientid: 0x10\n",
}

// Each metric that is new in PCP 6.3 to 7.2 has its value.
func TestSince72(t *testing.T) {
	const (
		one = "13091:0x6d077c5e60a12345"
		two = "13649:0x6d077c5e60a12345"
		lay = "77:0x6d077c5e60a12345"
		bsd = "13091:0x9"
	)
	want := map[string]string{
		"mem.util.shmemhugepages":              "103",
		"mem.util.shmempmdmapped":              "104",
		"mem.util.filehugepages":               "105",
		"mem.util.filepmdmapped":               "106",
		"mem.util.cmatotal":                    "107",
		"mem.util.cmafree":                     "108",
		"mem.util.unaccepted":                  "109",
		"mem.util.zswap":                       "110",
		"mem.util.zswapped":                    "111",
		"mem.util.shadowcallstack":             "112",
		"mem.util.percpu":                      "113",
		"mem.util.kreclaimable":                "114",
		"mem.util.hugetlb":                     "115",
		"network.icmp.outratelimitglobal":      "118",
		"network.icmp.outratelimithost":        "119",
		"network.ip.outtransmits":              "120",
		"mem.vmstat.pgsteal_anon":              "121",
		"mem.vmstat.pgscan_anon":               "122",
		"mem.vmstat.pgscan_file":               "123",
		"mem.vmstat.pgdemote_direct":           "124",
		"mem.vmstat.pgdemote_khugepaged":       "125",
		"mem.vmstat.pgdemote_kswapd":           "126",
		"mem.vmstat.pgpromote_candidate":       "128",
		"mem.vmstat.pgpromote_success":         "129",
		"mem.vmstat.pgscan_khugepaged":         "130",
		"mem.vmstat.pgsteal_khugepaged":        "131",
		"mem.numa.util.swapCached":             "node0=142 node2=2142",
		"mem.numa.util.kreclaimable":           "node0=143 node2=2143",
		"mem.numa.util.anonhugepages":          "node0=144 node2=2144",
		"mem.numa.util.shmemhugepages":         "node0=145 node2=2145",
		"mem.numa.util.shmempmdmapped":         "node0=146 node2=2146",
		"mem.numa.util.filehugepages":          "node0=147 node2=2147",
		"mem.numa.util.filepmdmapped":          "node0=148 node2=2148",
		"network.tcp.tcpplbrehash":             "149",
		"network.mptcp.addaddrtx":              "150",
		"network.mptcp.addaddrtxdrop":          "151",
		"network.mptcp.echoaddtx":              "152",
		"network.mptcp.echoaddtxdrop":          "153",
		"network.mptcp.rmaddrtx":               "154",
		"network.mptcp.rmaddrtxdrop":           "155",
		"network.tcp.tcpaorequired":            "156",
		"network.tcp.tcpaobad":                 "157",
		"network.tcp.tcpaokeynotfound":         "158",
		"network.tcp.tcpaogood":                "159",
		"network.tcp.tcpaodroppedicmps":        "160",
		"network.mptcp.mpcurrestab":            "161",
		"network.mptcp.mpjoinsynbackuprx":      "162",
		"network.mptcp.mpjoinsynackbackuprx":   "163",
		"network.mptcp.mpcapableendpattempt":   "164",
		"network.mptcp.dsscorruptionfallback":  "165",
		"network.mptcp.dsscorruptionreset":     "166",
		"network.mptcp.mpcapablesyntxdrop":     "167",
		"network.mptcp.mpcapablesyntxdisabled": "168",
		"network.mptcp.mpjoinsyntx":            "169",
		"network.mptcp.mpjoinsyntxcreatskerr":  "170",
		"network.mptcp.mpjoinsyntxbinderr":     "171",
		"network.mptcp.mpjoinsyntxconnecterr":  "172",
		"network.mptcp.blackhole":              "173",
		"network.tcp.pawsoldack":               "174",
		"network.tcp.tsecrrejected":            "175",
		"network.tcp.pawstimewait":             "176",
		"network.tcp.beyondwindow":             "177",
		"network.mptcp.mpjoinrejected":         "178",
		"network.mptcp.mpcapabledatafallback":  "179",
		"network.mptcp.md5sigfallback":         "180",
		"network.mptcp.dssfallback":            "181",
		"network.mptcp.simultconnectfallback":  "182",
		"network.mptcp.fallbackfailed":         "183",
		"network.mptcp.winprobe":               "184",
		"mem.vmstat.pgdemote_total":            "1375",

		"network.softnet.total_backlog":        "31",
		"network.softnet.percpu.total_backlog": "cpu0=26 cpu2=5",
		"network.softnet.input_qlen":           "12",
		"network.softnet.percpu.input_qlen":    "cpu0=10 cpu2=2",
		"network.softnet.process_qlen":         "19",
		"network.softnet.percpu.process_qlen":  "cpu0=16 cpu2=3",
		"hinv.cpu.frequency_scaling.current":   "cpu0=2596.123",

		"hinv.disk.ctlr":  "sda=00:10.0 sdb=80:01.1 nvme0n1=10000:e0:06.0",
		"hinv.disk.model": "sda=QEMU HARDDISK nvme0n1=Some SSD 980",
		"filesys.uuid":    "/dev/vda1=9c6b3a3e-2a5e /dev/mapper/vg0-home=aaaa-bbbb /dev/md/data=cccc-dddd /dev/vdb1=",
		"filesys.type":    "/dev/vda1=ext4 /dev/mapper/vg0-home=xfs /dev/md/data=btrfs /dev/vdb1=vfat",

		"sysfs.module.zswap.max_pool_percent": "20",
		"sysfs.module.zswap.enabled":          "Y",
		"mem.vmmemctl.current":                "409600",
		"mem.vmmemctl.target":                 "819200",
		"hyperv.balloon.state":                "3",
		"hyperv.balloon.pagesize":             "8192",
		"hyperv.balloon.added":                "81920",
		"hyperv.balloon.onlined":              "73728",
		"hyperv.balloon.ballooned":            "65536",
		"hyperv.balloon.total_committed":      "57344",

		"mem.hugepages.pagesize":       "1048576kB=1048576 2048kB=2048",
		"mem.hugepages.totalsize":      "1048576kB=1048576 2048kB=20480",
		"mem.hugepages.free":           "2048kB=14336",
		"mem.hugepages.reserved":       "2048kB=4096",
		"mem.hugepages.surplus":        "2048kB=2048",
		"mem.hugepages.overcommit":     "2048kB=10240",
		"mem.numa.hugepages.pagesize":  "node0::2048kB=2048 node2::2048kB=2048",
		"mem.numa.hugepages.totalsize": "node0::2048kB=12288 node2::2048kB=6144",
		"mem.numa.hugepages.free":      "node0::2048kB=8192",
		"mem.numa.hugepages.surplus":   "node2::2048kB=4096",

		"nfs4.server.clients.client_id":            "0x6d077c5e60a12345=0x6d077c5e60a12345 0x9=0x9",
		"nfs4.server.clients.addr":                 "0x6d077c5e60a12345=192.0.2.36:700",
		"nfs4.server.clients.status":               "0x6d077c5e60a12345=confirmed",
		"nfs4.server.clients.hostname":             "0x6d077c5e60a12345=host.example 0x9=BSD of A",
		"nfs4.server.clients.callback_state":       "0x6d077c5e60a12345=UP 0x9=DOWN",
		"nfs4.server.clients.callback_addr":        "0x6d077c5e60a12345=192.0.2.36:0",
		"nfs4.server.clients.admin_revoked_states": "0x6d077c5e60a12345=1",
		"nfs4.server.clients.session_slots":        "0x6d077c5e60a12345=30",
		"nfs4.server.clients.session_target_slots": "0x6d077c5e60a12345=64",
		"nfs4.server.open.inode":                   one + "=13091 " + two + "=13649 " + lay + "=77 " + bsd + "=13091",
		"nfs4.server.open.type":                    one + "=open " + two + "=deleg " + lay + "=layout " + bsd + "=open",
		"nfs4.server.open.access":                  one + "=rw " + two + "=r " + bsd + "=-w",
		"nfs4.server.open.filename":                one + "=a b " + two + "=x " + lay + "=z",
		"nfs4.server.open.client_id":               one + "=0x6d077c5e60a12345 " + two + "=0x6d077c5e60a12345 " + lay + "=0x6d077c5e60a12345 " + bsd + "=0x9",
		"nfs4.server.open.client_addr":             one + "=192.0.2.36:700 " + two + "=192.0.2.36:700 " + lay + "=192.0.2.36:700",
		"nfs4.server.open.client_hostname":         one + "=host.example " + two + "=host.example " + lay + "=host.example " + bsd + "=BSD of A",
	}
	if len(want) != 117 {
		t.Errorf("%d metrics", len(want))
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, since72), PageSize: 4096})
	r.Want(want)
}

// What the kernel of this host has of these metrics is what they have.
func TestSince72OfKernel(t *testing.T) {
	h := newHost(60, Options{CacheDir: t.TempDir()})
	r := newHarness(t, Options{})
	for _, f := range []struct {
		file, indent string // of a line: text before the name
		names        map[string]string
	}{
		{"/proc/meminfo", "", map[string]string{
			"ShmemHugePages:": "mem.util.shmemhugepages", "ShmemPmdMapped:": "mem.util.shmempmdmapped",
			"FileHugePages:": "mem.util.filehugepages", "FilePmdMapped:": "mem.util.filepmdmapped",
			"CmaTotal:": "mem.util.cmatotal", "CmaFree:": "mem.util.cmafree", "Unaccepted:": "mem.util.unaccepted",
			"Zswap:": "mem.util.zswap", "Zswapped:": "mem.util.zswapped", "ShadowCallStack:": "mem.util.shadowcallstack",
			"Percpu:": "mem.util.percpu", "KReclaimable:": "mem.util.kreclaimable", "Hugetlb:": "mem.util.hugetlb",
		}},
		{"/proc/vmstat", "", map[string]string{
			"pgsteal_anon": "mem.vmstat.pgsteal_anon", "pgscan_anon": "mem.vmstat.pgscan_anon", "pgscan_file": "mem.vmstat.pgscan_file",
			"pgdemote_direct": "mem.vmstat.pgdemote_direct", "pgdemote_khugepaged": "mem.vmstat.pgdemote_khugepaged",
			"pgdemote_kswapd": "mem.vmstat.pgdemote_kswapd", "pgpromote_candidate": "mem.vmstat.pgpromote_candidate",
			"pgpromote_success": "mem.vmstat.pgpromote_success", "pgscan_khugepaged": "mem.vmstat.pgscan_khugepaged",
			"pgsteal_khugepaged": "mem.vmstat.pgsteal_khugepaged",
		}},
		{"/sys/devices/system/node/node0/meminfo", "Node 0 ", map[string]string{
			"SwapCached:": "mem.numa.util.swapCached", "KReclaimable:": "mem.numa.util.kreclaimable",
			"AnonHugePages:": "mem.numa.util.anonhugepages", "ShmemHugePages:": "mem.numa.util.shmemhugepages",
			"ShmemPmdMapped:": "mem.numa.util.shmempmdmapped", "FileHugePages:": "mem.numa.util.filehugepages",
			"FilePmdMapped:": "mem.numa.util.filepmdmapped",
		}},
	} {
		for line, metric := range f.names {
			// The kernel changes some of them at any time.
			found := false
			var got, has string
			for i := 0; i < 1000 && !found; i++ {
				text, _ := h.hostReader.Path(f.file).Text(1 << 16)
				has = numberOfLine(string(text), f.indent+line)
				got = r.Values(metric)
				if f.indent != "" {
					got, _, _ = strings.Cut(strings.TrimPrefix(got, "node0="), " ")
				}
				found = got == has
			}
			if !found {
				t.Errorf("%s is %q, %s has %q", metric, got, f.file, has)
			}
		}
	}
	for file, metric := range map[string]string{
		"/sys/module/zswap/parameters/max_pool_percent": "sysfs.module.zswap.max_pool_percent",
		"/sys/module/zswap/parameters/enabled":          "sysfs.module.zswap.enabled",
	} {
		if got, want := r.Values(metric), string(h.hostReader.Path(file).Value()); got != want {
			t.Errorf("%s is %q, %s has %q", metric, got, file, want)
		}
	}
	if dirs, err := os.ReadDir("/sys/kernel/mm/hugepages"); err == nil && len(r.Instances(indomHugePages)) != len(dirs) {
		t.Errorf("instances %v, the kernel has %v", r.Instances(indomHugePages), dirs)
	}
	if got := r.Values("filesys.type"); !strings.Contains(got, "=") && r.Values("hinv.nfilesys") != "0" {
		t.Errorf("filesys.type is %q", got)
	}
}

// numberOfLine returns the number in the line that starts with a name, "" if there is
// none.
func numberOfLine(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name); ok && rest != "" && sysfile.IsBlank(rest[0]) {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

// Links of file systems are read again when their directory changes.
func TestUUIDChanges(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/1/mounts": "/dev/vda1 /data ext4 rw 0 0\n/dev/shared /x fuse rw 0 0\nfuse / fuse rw 0 0\n"})
	r := newHarness(t, Options{Root: root})
	want := func(one string) {
		t.Helper()
		r.Want(map[string]string{"filesys.uuid": "/dev/vda1=" + one + " /dev/shared= fuse="})
	}
	want("")
	for i, mtime := range []int64{1000, 2000} {
		uuid := fmt.Sprint("uuid", i)
		if err := os.RemoveAll(root + "/dev/disk"); err != nil {
			t.Fatal(err)
		}
		pmdatest.WriteFile(t, root, "dev/disk/by-uuid/"+uuid, "-> ../../vda1")
		setTime(t, root+"/dev/disk/by-uuid", mtime)
		want(uuid)
	}
	// With the same time the links are not read.
	pmdatest.WriteFile(t, root, "dev/disk/by-uuid/x", "-> ../../shared")
	setTime(t, root+"/dev/disk/by-uuid", 2000)
	want("uuid1")
	// Unless the directory has just changed, or the clock was set back since.
	future := time.Now().Add(time.Hour).Unix()
	for _, uuid := range []string{"uuid2", "uuid3"} {
		if err := os.RemoveAll(root + "/dev/disk"); err != nil {
			t.Fatal(err)
		}
		pmdatest.WriteFile(t, root, "dev/disk/by-uuid/"+uuid, "-> ../../vda1")
		setTime(t, root+"/dev/disk/by-uuid", future)
		want(uuid)
	}
	if err := os.RemoveAll(root + "/dev/disk"); err != nil {
		t.Fatal(err)
	}
	want("")
}

func setTime(t *testing.T, path string, sec int64) {
	t.Helper()
	if err := os.Chtimes(path, time.Unix(sec, 0), time.Unix(sec, 0)); err != nil {
		t.Fatal(err)
	}
}

// Clients of the NFS server may open any number of files, and any number of them over
// time. Instances and memory are limited.
func TestManyNFSOpens(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/fs/nfsd/clients/1/info": "clientid: 0x1\n", "proc/fs/nfsd/clients/2/info": "clientid: 0x2\n"})
	h := newHost(60, Options{Root: root, CacheDir: t.TempDir()})
	n := newNFSClients(h)
	clients := &pmda.Source{Read: n.readClients}
	for round := range 5 {
		for client := 1; client <= 2; client++ {
			var text strings.Builder
			for i := range 7000 {
				fmt.Fprintf(&text, "- 0x1: { type: open, access: r, superblock: \"fd:00:%d\", filename: \"/f\" }\n", 1+round*7000+i)
			}
			pmdatest.WriteFile(t, root, fmt.Sprintf("proc/fs/nfsd/clients/%d/states", client), text.String())
		}
		h.hostReader.Begin()
		if err := clients.Read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := n.readOpens(t.Context(), new(pmda.Request), new(pmda.Source)); err != nil {
			t.Fatal(err)
		}
		if active, inactive := n.opens.cache.Size(); active != maxNFSOpens || inactive > maxInactive || len(n.opens.byName) != active {
			t.Errorf("%d instances are active, %d inactive, %d by name", active, inactive, len(n.opens.byName))
		}
	}
}

// Ids of pools of huge pages are saved in files.
func TestHugePagesKeepIDs(t *testing.T) {
	root, cache := pmdatest.Tree(t, since72), t.TempDir()
	newHarness(t, Options{Root: root, CacheDir: cache}).Want(map[string]string{"mem.hugepages.surplus": "2048kB=2048", "mem.numa.hugepages.free": "node0::2048kB=8192"})
	for _, dir := range []string{"sys/kernel/mm/hugepages/hugepages-1048576kB", "sys/devices/system/node/node0/hugepages"} {
		if err := os.RemoveAll(root + "/" + dir); err != nil {
			t.Fatal(err)
		}
	}
	r := newHarness(t, Options{Root: root, CacheDir: cache})
	if got := instText(r.Instances(indomHugePages)) + ", " + instText(r.Instances(indomNodeHugePages)); got != "1=2048kB, 1=node2::2048kB" {
		t.Errorf("instances %s", got)
	}
}
