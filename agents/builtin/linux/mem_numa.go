package linux

import (
	"bytes"
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// numa reads the metrics of NUMA nodes: the times of their CPUs, the files of their
// directories in /sys/devices/system/node, and fragmentation.
type numa struct {
	*nodes
	stat      *stat
	hugePage  *optionalUint  // size of a huge page, in KiB
	index     map[string]int // of fields in mem
	blank     []optionalUint // one for each field of mem, without a number
	fragFile  *sysfile.File
	bandwidth *bandwidth
}

// A nodeInfo has the values of a node.
type nodeInfo struct {
	times     cpuTimes       // sum over the CPUs that are online
	mem       []optionalUint // by index; empty before the first read
	frag      float64
	hasFrag   bool
	bandwidth float64 // in MB/s; 0 if it is not known
}

func newNUMA(h *host, n *nodes, s *stat, m *meminfo) *numa {
	return &numa{
		nodes:     n,
		stat:      s,
		hugePage:  m.field("Hugepagesize"),
		index:     make(map[string]int),
		fragFile:  h.file("sys/kernel/debug/extfrag/unusable_index"),
		bandwidth: newBandwidth(),
	}
}

// readTimes sums the times of the CPUs of each node.
func (n *numa) readTimes(ctx context.Context, r *pmda.Request) error {
	err := r.ReadSource(ctx, n.stat.source)
	n.assignNodes(n.stat)
	for i := range n.list {
		n.list[i].times = cpuTimes{}
	}
	for _, c := range n.stat.cpus {
		if c == nil || !c.online || c.node < 0 {
			continue
		}
		if i := slices.IndexFunc(n.list, func(d node) bool { return d.num == c.node }); i >= 0 {
			n.list[i].times.add(&c.times)
		}
	}
	for i := range n.list {
		if t := &n.list[i].times; t.Words == 0 && n.stat.online > 0 {
			t.Words = newTimes // a node with memory only has the value 0
		}
	}
	return err
}

// add adds the times of a CPU. A time that is malformed or missing for one CPU has
// no sum.
func (t *cpuTimes) add(c *cpuTimes) {
	for i, n := range c.Nums {
		t.Nums[i] += n
	}
	t.Words = max(t.Words, c.Words)
	t.Bad |= c.Bad
}

// readMem reads the files meminfo and numastat of each node:
//
//	Node 0 MemTotal:       10840276 kB
//
//	numa_hit 602715410
//
// C differs: it has FilePmdMapped for Mapped and SecPageTables for PageTables,
// because it compares the ends of names.
func (n *numa) readMem(context.Context, *pmda.Request) error {
	for i := range n.list {
		d := &n.list[i]
		d.mem = append(d.mem[:0], n.blank...)
		for _, file := range []string{"meminfo", "numastat"} {
			n.parse(d, n.h.hostReader.Path("/sys/devices/system/node/").Name(d.name).Str("/").Name(file).Value())
		}
	}
	return nil
}

func (n *numa) parse(d *node, b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, rest := sysfile.Field(line)
		if string(word) == "Node" {
			_, rest = sysfile.Field(rest)
			word, rest = sysfile.Field(rest)
			word = bytes.TrimSuffix(word, []byte{':'})
		}
		if i, ok := n.index[string(word)]; ok {
			d.mem[i].parse(rest)
		}
	}
}

// value returns a FetchFunc for a field of meminfo or numastat.
func (n *numa) value(name string) pmda.FetchFunc {
	i := n.indexOf(name)
	return pmda.FromData(func(v *pmda.Value, d *node) {
		if i < len(d.mem) {
			d.mem[i].setValue(v)
		}
	})
}

// hugeBytes returns a FetchFunc for a field that counts huge pages, converted to
// bytes.
func (n *numa) hugeBytes(name string) pmda.FetchFunc {
	i := n.indexOf(name)
	return pmda.FromData(func(v *pmda.Value, d *node) {
		if i < len(d.mem) && d.mem[i].ok && n.hugePage.ok {
			v.SetUint(metrics.Scale(d.mem[i].n, n.hugePage.n<<10, 1))
		}
	})
}

// indexOf returns the index of a field in nodeInfo.mem, and adds it if necessary.
func (n *numa) indexOf(name string) int {
	i, ok := n.index[name]
	if !ok {
		i = len(n.index)
		n.index[name] = i
		n.blank = append(n.blank, optionalUint{})
	}
	return i
}

// readFrag reads the fraction of free memory that is unusable for a block of 2^0,
// 2^1 ... pages:
//
//	Node 0, zone   Normal 0.000 0.012 0.024 ...
//
// As in PCP, the value is the sum of these in the zone Normal.
func (n *numa) readFrag(context.Context, *pmda.Request) error {
	b, err := n.fragFile.Read()
	for i := range n.list {
		n.list[i].frag, n.list[i].hasFrag = 0, false
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		num, zone, rest, ok := zoneLine(line)
		if !ok || string(zone) != "Normal" {
			continue
		}
		for i := range n.list {
			if d := &n.list[i]; d.num == num {
				d.frag, d.hasFrag = sumOf(rest)
			}
		}
	}
	return err
}

// zoneLine parses the node and the name of the zone in a line like
//
//	Node 0, zone      DMA      0      0
func zoneLine(line []byte) (node int, zone, rest []byte, ok bool) {
	word, line := sysfile.Field(line)
	num, line := sysfile.Field(line)
	colon, line := sysfile.Field(line)
	zone, rest = sysfile.Field(line)
	n, isNum := sysfile.Uint(bytes.TrimSuffix(num, []byte{','}))
	ok = string(word) == "Node" && isNum && n < 1<<16 && string(colon) == "zone" && len(zone) > 0
	return int(n), zone, rest, ok
}

// sumOf returns the sum of the numbers of a line. ok is false if there are none, or
// one is malformed.
func sumOf(line []byte) (sum float64, ok bool) {
	for {
		var word []byte
		if word, line = sysfile.Field(line); len(word) == 0 {
			return sum, ok
		}
		f, isNum := sysfile.Float(word)
		if !isNum {
			return 0, false
		}
		sum, ok = sum+f, true
	}
}

func (n *numa) readBandwidth(context.Context, *pmda.Request) error {
	n.bandwidth.load()
	for i := range n.list {
		n.list[i].bandwidth = n.bandwidth.byNode[n.list[i].name]
	}
	return nil
}

func (n *numa) metrics(indom *pmda.InDom, m *meminfo) []pmda.Metric {
	perNode := func(f timeFunc) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, d *node) {
			if t, ok := f(&d.times); ok && d.times.Words > 0 {
				v.SetUint(n.stat.msecs(t))
			}
		})
	}
	frag := pmda.FromData(func(v *pmda.Value, d *node) {
		if d.hasFrag {
			v.SetFloat(d.frag)
		}
	})
	bandwidth := pmda.FromData(func(v *pmda.Value, d *node) {
		if d.bandwidth > 0 {
			v.SetFloat(d.bandwidth)
		}
	})
	mem := &pmda.Source{Read: n.readMem}
	huge := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		if err := r.ReadSource(ctx, m.source); err != nil {
			return err
		}
		return r.ReadSource(ctx, mem)
	}}
	labels := pmda.Labels{"device_type": []string{"numa_node", "cpu"}}
	times := pmda.Metric{InDom: indom, Source: &pmda.Source{Read: n.readTimes}, Labels: labels}
	return slices.Concat(timeTable(times, ofNode, "kernel.pernode.cpu.", perNode), table(pmda.Metric{InDom: indom, Source: mem}, []row{
		{36, 0, "mem.numa.util.total", u64, instant, kbyte, n.value("MemTotal")},
		{36, 1, "mem.numa.util.free", u64, instant, kbyte, n.value("MemFree")},
		{36, 2, "mem.numa.util.used", u64, instant, kbyte, n.value("MemUsed")},
		{36, 3, "mem.numa.util.active", u64, instant, kbyte, n.value("Active")},
		{36, 4, "mem.numa.util.inactive", u64, instant, kbyte, n.value("Inactive")},
		{36, 5, "mem.numa.util.active_anon", u64, instant, kbyte, n.value("Active(anon)")},
		{36, 6, "mem.numa.util.inactive_anon", u64, instant, kbyte, n.value("Inactive(anon)")},
		{36, 7, "mem.numa.util.active_file", u64, instant, kbyte, n.value("Active(file)")},
		{36, 8, "mem.numa.util.inactive_file", u64, instant, kbyte, n.value("Inactive(file)")},
		{36, 9, "mem.numa.util.highTotal", u64, instant, kbyte, n.value("HighTotal")},
		{36, 10, "mem.numa.util.highFree", u64, instant, kbyte, n.value("HighFree")},
		{36, 11, "mem.numa.util.lowTotal", u64, instant, kbyte, n.value("LowTotal")},
		{36, 12, "mem.numa.util.lowFree", u64, instant, kbyte, n.value("LowFree")},
		{36, 13, "mem.numa.util.unevictable", u64, instant, kbyte, n.value("Unevictable")},
		{36, 14, "mem.numa.util.mlocked", u64, instant, kbyte, n.value("Mlocked")},
		{36, 15, "mem.numa.util.dirty", u64, instant, kbyte, n.value("Dirty")},
		{36, 16, "mem.numa.util.writeback", u64, instant, kbyte, n.value("Writeback")},
		{36, 17, "mem.numa.util.filePages", u64, instant, kbyte, n.value("FilePages")},
		{36, 18, "mem.numa.util.mapped", u64, instant, kbyte, n.value("Mapped")},
		{36, 19, "mem.numa.util.anonpages", u64, instant, kbyte, n.value("AnonPages")},
		{36, 20, "mem.numa.util.shmem", u64, instant, kbyte, n.value("Shmem")},
		{36, 21, "mem.numa.util.kernelStack", u64, instant, kbyte, n.value("KernelStack")},
		{36, 22, "mem.numa.util.pageTables", u64, instant, kbyte, n.value("PageTables")},
		{36, 23, "mem.numa.util.NFS_Unstable", u64, instant, kbyte, n.value("NFS_Unstable")},
		{36, 24, "mem.numa.util.bounce", u64, instant, kbyte, n.value("Bounce")},
		{36, 25, "mem.numa.util.writebackTmp", u64, instant, kbyte, n.value("WritebackTmp")},
		{36, 26, "mem.numa.util.slab", u64, instant, kbyte, n.value("Slab")},
		{36, 27, "mem.numa.util.slabReclaimable", u64, instant, kbyte, n.value("SReclaimable")},
		{36, 28, "mem.numa.util.slabUnreclaimable", u64, instant, kbyte, n.value("SUnreclaim")},
		{36, 29, "mem.numa.util.hugepagesTotal", u64, instant, count, n.value("HugePages_Total")},
		{36, 30, "mem.numa.util.hugepagesFree", u64, instant, count, n.value("HugePages_Free")},
		{36, 31, "mem.numa.util.hugepagesSurp", u64, instant, count, n.value("HugePages_Surp")},
		{36, 32, "mem.numa.alloc.hit", u64, counter, count, n.value("numa_hit")},
		{36, 33, "mem.numa.alloc.miss", u64, counter, count, n.value("numa_miss")},
		{36, 34, "mem.numa.alloc.foreign", u64, counter, count, n.value("numa_foreign")},
		{36, 35, "mem.numa.alloc.interleave_hit", u64, counter, count, n.value("interleave_hit")},
		{36, 36, "mem.numa.alloc.local_node", u64, counter, count, n.value("local_node")},
		{36, 37, "mem.numa.alloc.other_node", u64, counter, count, n.value("other_node")},
		{36, 42, "mem.numa.util.swapCached", u64, instant, kbyte, n.value("SwapCached")},
		{36, 43, "mem.numa.util.kreclaimable", u64, instant, kbyte, n.value("KReclaimable")},
		{36, 44, "mem.numa.util.anonhugepages", u64, instant, kbyte, n.value("AnonHugePages")},
		{36, 45, "mem.numa.util.shmemhugepages", u64, instant, kbyte, n.value("ShmemHugePages")},
		{36, 46, "mem.numa.util.shmempmdmapped", u64, instant, kbyte, n.value("ShmemPmdMapped")},
		{36, 47, "mem.numa.util.filehugepages", u64, instant, kbyte, n.value("FileHugePages")},
		{36, 48, "mem.numa.util.filepmdmapped", u64, instant, kbyte, n.value("FilePmdMapped")},
	}), table(pmda.Metric{InDom: indom, Source: huge}, []row{
		{36, 39, "mem.numa.util.hugepagesTotalBytes", u64, instant, octet, n.hugeBytes("HugePages_Total")},
		{36, 40, "mem.numa.util.hugepagesFreeBytes", u64, instant, octet, n.hugeBytes("HugePages_Free")},
		{36, 41, "mem.numa.util.hugepagesSurpBytes", u64, instant, octet, n.hugeBytes("HugePages_Surp")},
	}), table(pmda.Metric{InDom: indom, Source: &pmda.Source{Read: n.readBandwidth}}, []row{
		{36, 38, "mem.numa.max_bandwidth", double, discrete, mbyteSec, bandwidth},
	}), table(pmda.Metric{InDom: indom, Source: &pmda.Source{Read: n.readFrag}}, []row{
		{35, 1, "sysfs.kernel.debug.extfrag_unusable", float, instant, none, frag},
	}))
}
