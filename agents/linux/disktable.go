package linux

import (
	"slices"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// An ioRow is a row for several kinds of disks: name is what is behind the
// prefix of a kind.
type ioRow struct {
	item  int
	name  string
	typ   pdu.MetricType
	sem   pdu.Sem
	units pdu.Units
	f     ioFunc
}

// ioTable is table for ioRows. fetch says what their functions are called for.
func ioTable(common pmda.Metric, cluster int, prefix string, fetch func(ioFunc) pmda.FetchFunc, rows []ioRow) []pmda.Metric {
	list := make([]row, len(rows))
	for i, r := range rows {
		list[i] = row{cluster, r.item, prefix + r.name, r.typ, r.sem, r.units, fetch(r.f)}
	}
	return table(common, list)
}

// Kinds of disks have their items in three orders.
var devRows = []ioRow{
	{4, "read", u64, counter, count, ios(rdIOs)},
	{5, "write", u64, counter, count, ios(wrIOs)},
	{6, "blkread", u64, counter, count, ios(rdSectors)},
	{7, "blkwrite", u64, counter, count, ios(wrSectors)},
	{28, "total", u64, counter, count, ios(rdIOs, wrIOs)},
	{36, "blktotal", u64, counter, count, ios(rdSectors, wrSectors)},
	{38, "read_bytes", u64, counter, kbyte, kib(rdSectors)},
	{39, "write_bytes", u64, counter, kbyte, kib(wrSectors)},
	{40, "total_bytes", u64, counter, kbyte, kib(rdSectors, wrSectors)},
	{46, "avactive", u32, counter, msec, ios(busyTime)},
	{47, "aveq", u32, counter, msec, ios(queueTime)},
	{49, "read_merge", u64, counter, count, ios(rdMerges)},
	{50, "write_merge", u64, counter, count, ios(wrMerges)},
	{72, "read_rawactive", u32, counter, msec, ios(rdTime)},
	{73, "write_rawactive", u32, counter, msec, ios(wrTime)},
	{79, "total_rawactive", u32, counter, msec, ios(rdTime, wrTime)},
	{88, "discard", u64, counter, count, ios(dsIOs)},
	{89, "blkdiscard", u64, counter, count, ios(dsSectors)},
	{90, "discard_bytes", u64, counter, kbyte, kib(dsSectors)},
	{91, "discard_merge", u64, counter, count, ios(dsMerges)},
	{92, "discard_rawactive", u32, counter, msec, ios(dsTime)},
	{93, "flush", u64, counter, count, ios(flIOs)},
	{94, "flush_rawactive", u32, counter, msec, ios(flTime)},
}

var partitionRows = []ioRow{
	{0, "read", u64, counter, count, ios(rdIOs)},
	{1, "write", u64, counter, count, ios(wrIOs)},
	{2, "total", u64, counter, count, ios(rdIOs, wrIOs)},
	{3, "blkread", u64, counter, count, ios(rdSectors)},
	{4, "blkwrite", u64, counter, count, ios(wrSectors)},
	{5, "blktotal", u64, counter, count, ios(rdSectors, wrSectors)},
	{6, "read_bytes", u64, counter, kbyte, kib(rdSectors)},
	{7, "write_bytes", u64, counter, kbyte, kib(wrSectors)},
	{8, "total_bytes", u64, counter, kbyte, kib(rdSectors, wrSectors)},
	{9, "read_merge", u64, counter, count, ios(rdMerges)},
	{10, "write_merge", u64, counter, count, ios(wrMerges)},
	{11, "avactive", u32, counter, msec, ios(busyTime)},
	{12, "aveq", u32, counter, msec, ios(queueTime)},
	{13, "read_rawactive", u32, counter, msec, ios(rdTime)},
	{14, "write_rawactive", u32, counter, msec, ios(wrTime)},
	{15, "total_rawactive", u32, counter, msec, ios(rdTime, wrTime)},
	{17, "discard", u64, counter, count, ios(dsIOs)},
	{18, "blkdiscard", u64, counter, count, ios(dsSectors)},
	{19, "discard_bytes", u64, counter, kbyte, kib(dsSectors)},
	{20, "discard_merge", u64, counter, count, ios(dsMerges)},
	{21, "discard_rawactive", u32, counter, msec, ios(dsTime)},
	{22, "flush", u64, counter, count, ios(flIOs)},
	{23, "flush_rawactive", u32, counter, msec, ios(flTime)},
	{24, "inflight", u32, instant, none, ios(inFlight)},
}

var volumeRows = []ioRow{
	{0, "read", u64, counter, count, ios(rdIOs)},
	{1, "write", u64, counter, count, ios(wrIOs)},
	{2, "total", u64, counter, count, ios(rdIOs, wrIOs)},
	{3, "blkread", u64, counter, count, ios(rdSectors)},
	{4, "blkwrite", u64, counter, count, ios(wrSectors)},
	{5, "blktotal", u64, counter, count, ios(rdSectors, wrSectors)},
	{6, "read_bytes", u32, counter, kbyte, kib(rdSectors)},
	{7, "write_bytes", u32, counter, kbyte, kib(wrSectors)},
	{8, "total_bytes", u32, counter, kbyte, kib(rdSectors, wrSectors)},
	{9, "read_merge", u64, counter, count, ios(rdMerges)},
	{10, "write_merge", u64, counter, count, ios(wrMerges)},
	{11, "avactive", u32, counter, msec, ios(busyTime)},
	{12, "aveq", u32, counter, msec, ios(queueTime)},
	{14, "read_rawactive", u32, counter, msec, ios(rdTime)},
	{15, "write_rawactive", u32, counter, msec, ios(wrTime)},
	{16, "total_rawactive", u32, counter, msec, ios(rdTime, wrTime)},
	{18, "discard", u64, counter, count, ios(dsIOs)},
	{19, "blkdiscard", u64, counter, count, ios(dsSectors)},
	{20, "discard_bytes", u64, counter, kbyte, kib(dsSectors)},
	{21, "discard_merge", u64, counter, count, ios(dsMerges)},
	{22, "discard_rawactive", u32, counter, msec, ios(dsTime)},
	{23, "flush", u64, counter, count, ios(flIOs)},
	{24, "flush_rawactive", u32, counter, msec, ios(flTime)},
	{25, "inflight", u32, instant, none, ios(inFlight)},
}

var allRows = []ioRow{
	{24, "read", u64, counter, count, ios(rdIOs)},
	{25, "write", u64, counter, count, ios(wrIOs)},
	{26, "blkread", u64, counter, count, ios(rdSectors)},
	{27, "blkwrite", u64, counter, count, ios(wrSectors)},
	{29, "total", u64, counter, count, ios(rdIOs, wrIOs)},
	{37, "blktotal", u64, counter, count, ios(rdSectors, wrSectors)},
	{41, "read_bytes", u64, counter, kbyte, kib(rdSectors)},
	{42, "write_bytes", u64, counter, kbyte, kib(wrSectors)},
	{43, "total_bytes", u64, counter, kbyte, kib(rdSectors, wrSectors)},
	{44, "avactive", u64, counter, msec, ios(busyTime)},
	{45, "aveq", u64, counter, msec, ios(queueTime)},
	{51, "read_merge", u64, counter, count, ios(rdMerges)},
	{52, "write_merge", u64, counter, count, ios(wrMerges)},
	{74, "read_rawactive", u64, counter, msec, ios(rdTime)},
	{75, "write_rawactive", u64, counter, msec, ios(wrTime)},
	{80, "total_rawactive", u64, counter, msec, ios(rdTime, wrTime)},
	{96, "discard", u64, counter, count, ios(dsIOs)},
	{97, "blkdiscard", u64, counter, count, ios(dsSectors)},
	{98, "discard_bytes", u64, counter, kbyte, kib(dsSectors)},
	{99, "discard_merge", u64, counter, count, ios(dsMerges)},
	{100, "discard_rawactive", u32, counter, msec, ios(dsTime)},
	{101, "flush", u64, counter, count, ios(flIOs)},
	{102, "flush_rawactive", u32, counter, msec, ios(flTime)},
	{104, "inflight", u64, instant, none, ios(inFlight)},
}

func diskMetrics(h *host) []pmda.Metric {
	files := newDiskFiles(h)
	devs := files.of(aDisk, indomDisk, "per disk", nil)
	partitions := files.of(aPartition, indomPartition, "per partition", nil)
	dm := files.of(aDM, indomDM, "per dm device", files.dmName)
	md := files.of(anMD, indomMD, "per md device", files.mdName)
	sized := func(s *disks) pmda.Metric {
		return pmda.Metric{InDom: s.indom, Source: &pmda.Source{Read: s.readSizes}}
	}
	kernel := of(func(v *pmda.Value, k *disk) { v.String(k.kernel) })
	scheduler := of(func(v *pmda.Value, k *disk) { v.Bytes(files.scheduler(k)) })
	wwid := of(func(v *pmda.Value, k *disk) { v.Bytes(files.wwid(k)) })
	status := of(func(v *pmda.Value, k *disk) { v.Int(int64(files.mdStatus(k))) })
	return slices.Concat(
		ioTable(pmda.Metric{InDom: devs.indom}, 0, "disk.dev.", each, devRows),
		table(pmda.Metric{InDom: devs.indom}, []row{
			{0, 59, "disk.dev.scheduler", str, discrete, none, scheduler},
			{0, 95, "disk.dev.inflight", u32, instant, none, each(ios(inFlight))},
			{0, 103, "hinv.map.scsi_id", str, discrete, none, wwid},
		}),
		table(sized(devs), []row{
			{0, 87, "disk.dev.capacity", u64, discrete, kbyte, each(capacity)},
		}),
		table(pmda.Metric{Source: devs.source}, []row{
			{0, 33, "hinv.ndisk", u32, discrete, none, number(func() (uint64, bool) { return uint64(devs.insts.seen), true })},
		}),
		ioTable(pmda.Metric{Source: devs.source}, 0, "disk.all.", devs.all, allRows),
		ioTable(pmda.Metric{InDom: partitions.indom}, 10, "disk.partitions.", each, partitionRows),
		table(sized(partitions), []row{
			{10, 16, "disk.partitions.capacity", u64, discrete, kbyte, each(capacity)},
		}),
		ioTable(pmda.Metric{InDom: dm.indom}, 54, "disk.dm.", each, volumeRows),
		table(pmda.Metric{InDom: dm.indom}, []row{
			{54, 13, "hinv.map.dmname", str, discrete, none, kernel},
		}),
		table(sized(dm), []row{
			{54, 17, "disk.dm.capacity", u64, discrete, kbyte, each(capacity)},
		}),
		ioTable(pmda.Metric{InDom: md.indom}, 59, "disk.md.", each, volumeRows),
		table(pmda.Metric{InDom: md.indom}, []row{
			{59, 13, "hinv.map.mdname", str, discrete, none, kernel},
			{60, 0, "disk.md.status", i32, instant, none, status},
		}),
		table(sized(md), []row{
			{59, 17, "disk.md.capacity", u64, discrete, kbyte, each(capacity)},
		}),
		newWWIDs(devs).metrics(),
		zramMetrics(files.of(aZRAM, indomZRAM, "", nil)),
	)
}
