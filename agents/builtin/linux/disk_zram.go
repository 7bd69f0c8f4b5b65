package linux

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// zramFiles has the numbers of files of /sys/block/zramN, see the kernel's
// Documentation/admin-guide/blockdev/zram.rst. Except disksize each file has
// several numbers; newer kernels have more of them.
type zramFiles struct {
	size       uint64 // in bytes
	io, mm, bd sysfile.Record
}

func zramMetrics(s *disks) []pmda.Metric {
	source := func(read func(k *disk)) *pmda.Source {
		return &pmda.Source{Read: func(context.Context, *pmda.Request) error {
			for k := range s.instances.all {
				if k.zram == nil {
					k.zram = new(zramFiles)
				}
				read(k)
			}
			return nil
		}}
	}
	// Numbers are counts, bytes or pages. The unit of bd_stat is 4 KiB.
	asIs := func(n uint64) uint64 { return n }
	bytes := func(n uint64) uint64 { return n >> 10 }
	blocks := func(n uint64) uint64 { return n << 2 }
	// C differs: it assumes pages of 4 KiB.
	pages := func(n uint64) uint64 { return n * uint64(s.h.PageSize) >> 10 }
	value := func(r func(z *zramFiles) *sysfile.Record, index int, unit func(uint64) uint64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, k *disk) {
			if n, ok := r(k.zram).At(index); ok {
				v.SetUint(unit(n))
			}
		})
	}
	io := func(z *zramFiles) *sysfile.Record { return &z.io }
	mm := func(z *zramFiles) *sysfile.Record { return &z.mm }
	bd := func(z *zramFiles) *sysfile.Record { return &z.bd }
	// As in C, the size is 0 without the file.
	size := pmda.FromData(func(v *pmda.Value, k *disk) { v.SetUint(k.zram.size >> 10) })
	file := func(name string, r func(z *zramFiles) *sysfile.Record) pmda.Metric {
		return pmda.Metric{InDom: s.indom, Source: source(func(k *disk) { r(k.zram).Parse(s.h.blockDevice(k).Value(name)) })}
	}
	disksize := source(func(k *disk) { k.zram.size, _ = s.h.blockDevice(k).Number("disksize") })
	return slices.Concat(
		ioTable(pmda.Metric{InDom: s.indom}, ofPartitions, 86, "zram.", perDisk),
		table(pmda.Metric{InDom: s.indom, Source: disksize}, []row{
			{86, 16, "zram.capacity", u64, discrete, kbyte, size},
		}),
		table(file("io_stat", io), []row{
			{87, 0, "zram.io_stat.failed.reads", u64, counter, count, value(io, 0, asIs)},
			{87, 1, "zram.io_stat.failed.writes", u64, counter, count, value(io, 1, asIs)},
			{87, 2, "zram.io_stat.invalid", u64, counter, count, value(io, 2, asIs)},
			{87, 3, "zram.io_stat.notify_free", u64, counter, count, value(io, 3, asIs)},
		}),
		table(file("mm_stat", mm), []row{
			{88, 0, "zram.mm_stat.data_size.original", u64, instant, kbyte, value(mm, 0, bytes)},
			{88, 1, "zram.mm_stat.data_size.compressed", u64, instant, kbyte, value(mm, 1, bytes)},
			{88, 2, "zram.mm_stat.mem.used_total", u64, instant, kbyte, value(mm, 2, bytes)},
			{88, 3, "zram.mm_stat.mem.limit", u64, instant, kbyte, value(mm, 3, bytes)},
			{88, 4, "zram.mm_stat.mem.max_used", u64, instant, kbyte, value(mm, 4, bytes)},
			{88, 5, "zram.mm_stat.pages.same", u64, counter, kbyte, value(mm, 5, pages)},
			{88, 6, "zram.mm_stat.pages.compacted", u64, counter, kbyte, value(mm, 6, pages)},
			{88, 7, "zram.mm_stat.pages.huge", u64, counter, kbyte, value(mm, 7, pages)},
		}),
		table(file("bd_stat", bd), []row{
			{89, 0, "zram.bd_stat.count", u64, counter, kbyte, value(bd, 0, blocks)},
			{89, 1, "zram.bd_stat.reads", u64, counter, kbyte, value(bd, 1, blocks)},
			{89, 2, "zram.bd_stat.writes", u64, counter, kbyte, value(bd, 2, blocks)},
		}),
	)
}
