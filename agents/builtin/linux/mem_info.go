package linux

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
)

// meminfo reads /proc/meminfo, proc(5): a number in each line, most of them in KiB.
//
//	MemTotal:       24684092 kB
//	HugePages_Total:       0
//
// C differs: it estimates MemAvailable for kernels before 3.14, which lack it.
type meminfo struct{ *keyed }

func newMeminfo(h *host) *meminfo {
	m := &meminfo{newKeyed(h, "proc/meminfo", ':')}
	m.file.NeverBlocks(0)
	return m
}

// minus returns a FetchFunc for a field minus other fields. The value is never
// below 0.
//
// C differs: mem.util.used and swap.used may be.
func (m *meminfo) minus(name string, others ...string) pmda.FetchFunc {
	return pmda.FromUint(m.difference(name, others))
}

func (m *meminfo) difference(name string, others []string) func() (uint64, bool) {
	f := m.field(name)
	subtrahends := make([]*optionalUint, len(others))
	for i, o := range others {
		subtrahends[i] = m.field(o)
	}
	return func() (uint64, bool) {
		n, ok := f.n, f.ok
		for _, o := range subtrahends {
			n, ok = n-min(n, o.n), ok && o.ok
		}
		return n, ok
	}
}

// bytes is minus with the result in bytes.
func (m *meminfo) bytes(name string, others ...string) pmda.FetchFunc {
	f := m.difference(name, others)
	return pmda.FromUint(func() (uint64, bool) {
		n, ok := f()
		return n << 10, ok
	})
}

// hugeBytes returns a FetchFunc for a field that counts huge pages, converted to
// bytes.
func (m *meminfo) hugeBytes(name string) pmda.FetchFunc {
	f, size := m.field(name), m.field("Hugepagesize")
	return pmda.FromUint(func() (uint64, bool) { return metrics.Scale(f.n, size.n<<10, 1), f.ok && size.ok })
}

func (m *meminfo) metrics() []pmda.Metric {
	total, huge := m.field("MemTotal"), m.field("Hugepagesize")
	return table(pmda.Metric{Source: m.source}, []row{
		{1, 0, "mem.physmem", u64, discrete, kbyte, m.value("MemTotal")},
		{1, 1, "mem.util.used", u64, instant, kbyte, m.minus("MemTotal", "MemFree")},
		{1, 2, "mem.util.free", u64, instant, kbyte, m.value("MemFree")},
		{1, 3, "mem.util.shared", u64, instant, kbyte, m.value("MemShared")},
		{1, 4, "mem.util.bufmem", u64, instant, kbyte, m.value("Buffers")},
		{1, 5, "mem.util.cached", u64, instant, kbyte, m.value("Cached")},
		{1, 12, "mem.util.other", u64, instant, kbyte, m.minus("MemTotal", "MemFree", "Cached", "Buffers")},
		{1, 13, "mem.util.swapCached", u64, instant, kbyte, m.value("SwapCached")},
		{1, 14, "mem.util.active", u64, instant, kbyte, m.value("Active")},
		{1, 15, "mem.util.inactive", u64, instant, kbyte, m.value("Inactive")},
		{1, 16, "mem.util.highTotal", u64, instant, kbyte, m.value("HighTotal")},
		{1, 17, "mem.util.highFree", u64, instant, kbyte, m.value("HighFree")},
		{1, 18, "mem.util.lowTotal", u64, instant, kbyte, m.value("LowTotal")},
		{1, 19, "mem.util.lowFree", u64, instant, kbyte, m.value("LowFree")},
		{1, 20, "mem.util.swapTotal", u64, instant, kbyte, m.value("SwapTotal")},
		{1, 21, "mem.util.swapFree", u64, instant, kbyte, m.value("SwapFree")},
		{1, 22, "mem.util.dirty", u64, instant, kbyte, m.value("Dirty")},
		{1, 23, "mem.util.writeback", u64, instant, kbyte, m.value("Writeback")},
		{1, 24, "mem.util.mapped", u64, instant, kbyte, m.value("Mapped")},
		{1, 25, "mem.util.slab", u64, instant, kbyte, m.value("Slab")},
		{1, 26, "mem.util.committed_AS", u64, instant, kbyte, m.value("Committed_AS")},
		{1, 27, "mem.util.pageTables", u64, instant, kbyte, m.value("PageTables")},
		{1, 28, "mem.util.reverseMaps", u64, instant, kbyte, m.value("ReverseMaps")},
		{1, 29, "mem.util.cache_clean", u64, instant, kbyte, m.minus("Cached", "Dirty", "Writeback")},
		{1, 30, "mem.util.anonpages", u64, instant, kbyte, m.value("AnonPages")},
		{1, 31, "mem.util.commitLimit", u64, instant, kbyte, m.value("CommitLimit")},
		{1, 32, "mem.util.bounce", u64, instant, kbyte, m.value("Bounce")},
		{1, 33, "mem.util.NFS_Unstable", u64, instant, kbyte, m.value("NFS_Unstable")},
		{1, 34, "mem.util.slabReclaimable", u64, instant, kbyte, m.value("SReclaimable")},
		{1, 35, "mem.util.slabUnreclaimable", u64, instant, kbyte, m.value("SUnreclaim")},
		{1, 36, "mem.util.active_anon", u64, instant, kbyte, m.value("Active(anon)")},
		{1, 37, "mem.util.inactive_anon", u64, instant, kbyte, m.value("Inactive(anon)")},
		{1, 38, "mem.util.active_file", u64, instant, kbyte, m.value("Active(file)")},
		{1, 39, "mem.util.inactive_file", u64, instant, kbyte, m.value("Inactive(file)")},
		{1, 40, "mem.util.unevictable", u64, instant, kbyte, m.value("Unevictable")},
		{1, 41, "mem.util.mlocked", u64, instant, kbyte, m.value("Mlocked")},
		{1, 42, "mem.util.shmem", u64, instant, kbyte, m.value("Shmem")},
		{1, 43, "mem.util.kernelStack", u64, instant, kbyte, m.value("KernelStack")},
		{1, 44, "mem.util.hugepagesTotal", u64, instant, count, m.value("HugePages_Total")},
		{1, 45, "mem.util.hugepagesFree", u64, instant, count, m.value("HugePages_Free")},
		{1, 46, "mem.util.hugepagesRsvd", u64, instant, count, m.value("HugePages_Rsvd")},
		{1, 47, "mem.util.hugepagesSurp", u64, instant, count, m.value("HugePages_Surp")},
		{1, 48, "mem.util.directMap4k", u64, instant, kbyte, m.value("DirectMap4k")},
		{1, 49, "mem.util.directMap2M", u64, instant, kbyte, m.value("DirectMap2M")},
		{1, 50, "mem.util.vmallocTotal", u64, instant, kbyte, m.value("VmallocTotal")},
		{1, 51, "mem.util.vmallocUsed", u64, instant, kbyte, m.value("VmallocUsed")},
		{1, 52, "mem.util.vmallocChunk", u64, instant, kbyte, m.value("VmallocChunk")},
		{1, 53, "mem.util.mmap_copy", u64, instant, kbyte, m.value("MmapCopy")},
		{1, 54, "mem.util.quicklists", u64, instant, kbyte, m.value("Quicklists")},
		{1, 55, "mem.util.corrupthardware", u64, instant, kbyte, m.value("HardwareCorrupted")},
		{1, 56, "mem.util.anonhugepages", u64, instant, kbyte, m.value("AnonHugePages")},
		{1, 57, "mem.util.directMap1G", u64, instant, kbyte, m.value("DirectMap1G")},
		{1, 58, "mem.util.available", u64, instant, kbyte, m.value("MemAvailable")},
		{1, 60, "mem.util.hugepagesTotalBytes", u64, instant, octet, m.hugeBytes("HugePages_Total")},
		{1, 61, "mem.util.hugepagesFreeBytes", u64, instant, octet, m.hugeBytes("HugePages_Free")},
		{1, 62, "mem.util.hugepagesRsvdBytes", u64, instant, octet, m.hugeBytes("HugePages_Rsvd")},
		{1, 63, "mem.util.hugepagesSurpBytes", u64, instant, octet, m.hugeBytes("HugePages_Surp")},
		{1, 64, "mem.util.shmemhugepages", u64, instant, kbyte, m.value("ShmemHugePages")},
		{1, 65, "mem.util.shmempmdmapped", u64, instant, kbyte, m.value("ShmemPmdMapped")},
		{1, 66, "mem.util.filehugepages", u64, instant, kbyte, m.value("FileHugePages")},
		{1, 67, "mem.util.filepmdmapped", u64, instant, kbyte, m.value("FilePmdMapped")},
		{1, 68, "mem.util.cmatotal", u64, instant, kbyte, m.value("CmaTotal")},
		{1, 69, "mem.util.cmafree", u64, instant, kbyte, m.value("CmaFree")},
		{1, 70, "mem.util.unaccepted", u64, instant, kbyte, m.value("Unaccepted")},
		{1, 71, "mem.util.zswap", u64, instant, kbyte, m.value("Zswap")},
		{1, 72, "mem.util.zswapped", u64, instant, kbyte, m.value("Zswapped")},
		{1, 73, "mem.util.shadowcallstack", u64, instant, kbyte, m.value("ShadowCallStack")},
		{1, 74, "mem.util.percpu", u64, instant, kbyte, m.value("Percpu")},
		{1, 75, "mem.util.kreclaimable", u64, instant, kbyte, m.value("KReclaimable")},
		{1, 76, "mem.util.hugetlb", u64, instant, kbyte, m.value("Hugetlb")},

		{1, 10, "mem.freemem", u64, instant, kbyte, m.value("MemFree")},

		{1, 6, "swap.length", u64, instant, octet, m.bytes("SwapTotal")},
		{1, 7, "swap.used", u64, instant, octet, m.bytes("SwapTotal", "SwapFree")},
		{1, 8, "swap.free", u64, instant, octet, m.bytes("SwapFree")},

		{1, 9, "hinv.physmem", u32, discrete, mbyte, pmda.FromUint(func() (uint64, bool) { return total.n >> 10, total.ok })},
		{1, 59, "hinv.hugepagesize", u32, discrete, octet, pmda.FromUint(func() (uint64, bool) { return huge.n << 10, huge.ok })},
	})
}
