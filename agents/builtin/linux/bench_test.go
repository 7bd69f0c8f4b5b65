package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// bigTree composes the files of a host with many CPUs, disks and interfaces.
func bigTree(tb testing.TB, cpus, disks, ifaces int) string {
	var stat, diskstats, dev strings.Builder
	fmt.Fprintf(&stat, "cpu  %d 20 30 40 50 60 70 80 90 100\n", cpus)
	for i := range cpus {
		fmt.Fprintf(&stat, "cpu%d %d 346378 342301 1239873 3615 0 23001 277 0 0\n", i, 482105+i)
	}
	stat.WriteString("intr 5 0 0 1\nctxt 1\n")
	for i := range disks {
		fmt.Fprintf(&diskstats, " 259 %d nvme%dn1 575905 98677 15666370 275054 1230445 240597 22537480 230079 0 123088 560920 761024 971 32049888 48725 1 2\n", i, i)
		fmt.Fprintf(&diskstats, " 259 %d nvme%dn1p1 575905 98677 15666370 275054 1230445 240597 22537480 230079 0 123088 560920 761024 971 32049888 48725 1 2\n", i, i)
	}
	files := map[string]string{}
	dev.WriteString("Inter-|   Receive\n face |bytes\n")
	for i := range ifaces {
		fmt.Fprintf(&dev, " veth%d: 150572056    6329    0    0    0     0          0         0   790241    5464    0    0    0     0       0          0\n", i)
		for name, text := range map[string]string{"mtu": "1500\n", "speed": "10000\n", "duplex": "full\n", "flags": "0x1003\n", "operstate": "up\n", "type": "1\n"} {
			files[fmt.Sprintf("sys/class/net/veth%d/%s", i, name)] = text
		}
	}
	files["proc/interrupts"] = interruptsOf(cpus)
	files["proc/stat"], files["proc/diskstats"], files["proc/net/dev"] = stat.String(), diskstats.String(), dev.String()
	return pmdatest.Tree(tb, files)
}

// interruptsOf returns a /proc/interrupts with as many lines as a host with that
// number of CPUs has.
func interruptsOf(cpus int) string {
	var b strings.Builder
	for i := range cpus {
		fmt.Fprintf(&b, " CPU%d", i)
	}
	for i := range 2 * cpus {
		fmt.Fprintf(&b, "\n %d:", 100+i)
		for j := range cpus {
			fmt.Fprintf(&b, " %10d", i*j)
		}
		b.WriteString("  PCI-MSIX-0000:00:03.0   2-edge      nvme0q1")
	}
	b.WriteByte('\n')
	return b.String()
}

// repeat returns a function that fetches the metrics whose names start with prefix.
func repeat(r *pmdatest.Harness, prefix string) (fetch func() int) {
	var names []string
	for name := range r.Metrics {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return r.Repeat(names...)
}

var fetched = []string{
	"kernel.all.load", "kernel.all.cpu.", "kernel.all.pressure.io", "kernel.percpu.cpu.", "kernel.percpu.interrupts", "kernel.pernode.",
	"mem.vmstat.", "mem.zoneinfo.", "mem.numa.util.", "ipc.shm.nattch", "swap.used", "vfs.",
	"mem.util.", "disk.", "network.interface.", "network.tcp.", "network.all.", "network.tcpconn", "network.unix.", "network.ip6.",
}

// A fetch allocates no memory for values: the number of allocations does not depend
// on the number of values.
func TestFetchDoesNotAllocate(t *testing.T) {
	for root, limit := range map[string]float64{"/": 0, bigTree(t, 16, 8, 30): 40} {
		r := newHarness(t, Options{Root: root})
		for _, prefix := range fetched {
			t.Run(prefix, func(t *testing.T) {
				fetch := repeat(r, prefix)
				fetch()
				fetch()
				allocs := testing.AllocsPerRun(20, func() { fetch() })
				// Files of a recorded tree are opened in each fetch, files of the kernel
				// stay open.
				if allocs > limit {
					t.Errorf("root %s: a fetch of %s allocates %v times", root, prefix, allocs)
				}
			})
		}
	}
}

func benchmarkFetch(b *testing.B, root string) {
	for _, prefix := range append(fetched, "") {
		name := strings.TrimRight(prefix, ".")
		if name == "" {
			name = "all"
		}
		b.Run(name, func(b *testing.B) {
			fetch := repeat(newHarness(b, Options{Root: root}), prefix)
			fetch() // creates the instances
			b.ReportAllocs()
			for b.Loop() {
				fetch()
			}
		})
	}
}

func BenchmarkFetch(b *testing.B)    { benchmarkFetch(b, "/") }
func BenchmarkFetchBig(b *testing.B) { benchmarkFetch(b, bigTree(b, 256, 64, 500)) }

// BenchmarkParse measures only the parsers, with files of a large host.
func BenchmarkParse(b *testing.B) {
	h := newHost(60, Options{Root: bigTree(b, 256, 64, 500), CacheDir: b.TempDir()})
	stat, net, mem := newStat(h), newInterfaces(h), newMeminfo(h)
	netstat := newCounters((&host{Options: Options{Root: "testdata/vm"}}).file("proc/net/netstat"), nil)
	mptcpMetrics(netstat)
	disks := newDiskFiles(h).disksOf(kindDisk, indomDisk, "", nil)
	mem.metrics()
	meminfo := (&host{Options: Options{Root: "testdata/vm"}}).file("proc/meminfo")
	vm := func(name string) *sysfile.File { return sysfile.NewFile("testdata/vm/proc/" + name) }
	vmstat := newVmstat(h)
	vmstat.metrics()
	irqs := newInterrupts(h, "proc/interrupts", indomIRQ, indomIRQCPU)
	for _, bb := range []struct {
		name  string
		file  *sysfile.File
		parse func([]byte)
	}{
		{"stat 256 cpus", stat.file, stat.parse},
		{"diskstats 64 disks", disks.stats, disks.parse},
		{"net/dev 500 interfaces", net.file, net.parse},
		{"meminfo", meminfo, mem.parse},
		{"vmstat", vm("vmstat"), vmstat.parse},
		{"zoneinfo", vm("zoneinfo"), newZones(h).parse},
		{"slabinfo", vm("slabinfo"), newSlabs(h).parse},
		{"interrupts 256 cpus", irqs.file, irqs.parse},
		{"netstat", netstat.file, netstat.parseColumns},
	} {
		b.Run(bb.name, func(b *testing.B) {
			text, err := bb.file.Read()
			if err != nil || len(text) == 0 {
				b.Fatalf("%d bytes, %v", len(text), err)
			}
			b.SetBytes(int64(len(text)))
			bb.parse(text) // creates the instances
			b.ReportAllocs()
			for b.Loop() {
				bb.parse(text)
			}
		})
	}
}

func BenchmarkSockets(b *testing.B) {
	const line = "   3: 0100007F:CD78 0100007F:8D45 06 00000000:00000000 03:000014CC 00000000     0        0 0 3 0000000042dad0b1                                      \n"
	root := pmdatest.Tree(b, map[string]string{"proc/net/tcp": strings.Repeat(line, 100000)})
	s := newSockets(&host{Options: Options{Root: root}}, "tcp")
	b.SetBytes(100000 * int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.source.Read(b.Context(), new(pmda.Request)); err != nil || s.states[timeWait] != 100000 {
			b.Fatal(s.states, err)
		}
	}
}
