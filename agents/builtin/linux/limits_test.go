package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// A number that the type of its metric cannot hold is the largest of the type. A number that says
// that there is none, or that cannot be, is no value.
func TestLargeNumbers(t *testing.T) {
	const long, ulong = "9223372036854775807", "18446744073709551615"
	root := pmdatest.Tree(t, map[string]string{
		"proc/sys/fs/file-nr":                  "1184\t0\t" + long + "\n", // systemd sets fs.file-max so
		"proc/sys/fs/aio-max-nr":               ulong + "\n",
		"proc/sys/fs/dentry-state":             "-1\t4294967296\t45\t0\t0\t0\n",
		"proc/sys/kernel/shmmax":               "18446744073692774399\n",
		"proc/sys/kernel/shmall":               ulong + "\n",
		"proc/sys/kernel/msgmax":               "99999999999999999999\n", // more than 64 bits
		"proc/sys/kernel/random/entropy_avail": "-5\n",
		"proc/sys/kernel/pid_max":              "4194304\n",
		// lxcfs
		"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 18446744073709551612 kB\nBuffers: 9007199254740991 kB\nCached: 18014398509481980 kB\n" +
			"SwapTotal: 500 kB\nSwapFree: 18446744073709551612 kB\nHugePages_Total: " + ulong + "\nHugepagesize: 2048 kB\n",
		"proc/vmstat": "nr_free_pages " + ulong + "\nnr_dirty 18446744073709551610\nnr_mapped -1\nnr_writeback " + long + "\n" +
			"nr_slab_reclaimable " + ulong + "\nnr_slab_unreclaimable 5\npgfault " + ulong + "\n",
		"proc/swaps":             "Filename Type Size Used Priority\n/dev/vda2 partition 8589934592 18446744073709551612 -2\n/dev/vda3 partition 8589934592 0 -3\n",
		"proc/net/sockstat":      "sockets: used 5\nTCP: inuse 1 orphan 0 tw 0 alloc 2 mem -3\n",
		"proc/net/dev":           "Inter-|\n face |\n  eth0: 5000000000 4294967301 0 0 0 0 0 0 6 7 0 0 0 0 0 0\n",
		"sys/class/net/eth0/mtu": "1500\n", "sys/class/net/eth0/speed": "-1\n",
	})
	newHarness(t, Options{Root: root, PageSize: 4096}).Want(map[string]string{
		"vfs.files.count":              "1184",
		"vfs.files.max":                "2147483647",
		"vfs.aio.max":                  "2147483647",
		"vfs.dentry.count":             "",
		"vfs.dentry.free":              "2147483647",
		"ipc.shm.max_segsz":            "4294967295",
		"ipc.shm.max_shmsys":           "4294967295",
		"ipc.msg.max_msgsz":            "",
		"kernel.all.entropy.avail":     "",
		"kernel.all.pid_max":           "4194304",
		"mem.physmem":                  "1000",
		"mem.util.free":                "",
		"mem.freemem":                  "",
		"mem.util.used":                "",
		"mem.util.other":               "",
		"mem.util.bufmem":              "9007199254740991",
		"mem.util.cached":              "",
		"mem.util.hugepagesTotal":      ulong,
		"mem.util.hugepagesTotalBytes": ulong,
		"mem.vmstat.nr_free_pages":     "",
		"mem.vmstat.nr_dirty":          "",
		"mem.vmstat.nr_mapped":         "",
		"mem.vmstat.nr_slab":           "",
		"mem.vmstat.nr_writeback":      long,
		"mem.vmstat.pgfault":           ulong,
		"swap.length":                  "512000",
		"swap.free":                    "",
		"swap.used":                    "",
		"swapdev.free":                 "/dev/vda3=4294967295",
		"swapdev.length":               "/dev/vda2=4294967295 /dev/vda3=4294967295",
		"network.sockstat.tcp.mem":     "-3",
		"network.interface.in.bytes":   "eth0=5000000000",
		"network.interface.in.packets": "eth0=4294967301",
		"network.interface.speed":      "",
		"network.interface.baudrate":   "",
	})
}
