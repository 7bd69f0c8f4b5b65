package linux

import (
	"slices"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Indices of items and types: instance domains that have ioRows. Paths are the
// disks with the same WWID, volumes are those of dm and md, and ofAll are the sums
// over all disks, without instances.
const (
	ofDisks = iota
	ofPaths
	ofPartitions
	ofVolumes
	ofAll
	ioDomains
)

// An ioRow describes a metric that all these domains have. name is the suffix of
// its names. The item and the type depend on the domain.
type ioRow struct {
	name  string
	items items
	types types
	sem   pdu.Sem
	units pdu.Units
	f     ioFunc
}

type (
	items [ioDomains]int
	types [ioDomains]pdu.MetricType
)

var (
	long  = types{u64, u64, u64, u64, u64}
	short = types{u32, u32, u32, u32, u32}
	times = types{u32, u32, u32, u32, u64}
	queue = types{u32, u64, u32, u32, u64}
)

// The order of items is disks, paths, partitions, volumes, all.
var ioRows = []ioRow{
	{"read", items{4, 4, 0, 0, 24}, long, counter, count, sumFields(rdIOs)},
	{"write", items{5, 5, 1, 1, 25}, long, counter, count, sumFields(wrIOs)},
	{"total", items{28, 28, 2, 2, 29}, long, counter, count, sumFields(rdIOs, wrIOs)},
	{"blkread", items{6, 6, 3, 3, 26}, long, counter, count, sumFields(rdSectors)},
	{"blkwrite", items{7, 7, 4, 4, 27}, long, counter, count, sumFields(wrSectors)},
	{"blktotal", items{36, 36, 5, 5, 37}, long, counter, count, sumFields(rdSectors, wrSectors)},
	{"read_bytes", items{38, 38, 6, 6, 41}, long, counter, kbyte, sumKiB(rdSectors)},
	{"write_bytes", items{39, 39, 7, 7, 42}, long, counter, kbyte, sumKiB(wrSectors)},
	{"total_bytes", items{40, 40, 8, 8, 43}, long, counter, kbyte, sumKiB(rdSectors, wrSectors)},
	{"avactive", items{46, 46, 11, 11, 44}, times, counter, msec, sumFields(busyTime)},
	{"aveq", items{47, 47, 12, 12, 45}, times, counter, msec, sumFields(queueTime)},
	{"read_merge", items{49, 49, 9, 9, 51}, long, counter, count, sumFields(rdMerges)},
	{"write_merge", items{50, 50, 10, 10, 52}, long, counter, count, sumFields(wrMerges)},
	{"read_rawactive", items{72, 72, 13, 14, 74}, times, counter, msec, sumFields(rdTime)},
	{"write_rawactive", items{73, 73, 14, 15, 75}, times, counter, msec, sumFields(wrTime)},
	{"total_rawactive", items{79, 79, 15, 16, 80}, times, counter, msec, sumFields(rdTime, wrTime)},
	{"discard", items{88, 88, 17, 18, 96}, long, counter, count, sumFields(dsIOs)},
	{"blkdiscard", items{89, 89, 18, 19, 97}, long, counter, count, sumFields(dsSectors)},
	{"discard_bytes", items{90, 90, 19, 20, 98}, long, counter, kbyte, sumKiB(dsSectors)},
	{"discard_merge", items{91, 91, 20, 21, 99}, long, counter, count, sumFields(dsMerges)},
	{"discard_rawactive", items{92, 92, 21, 22, 100}, short, counter, msec, sumFields(dsTime)},
	{"flush", items{93, 93, 22, 23, 101}, long, counter, count, sumFields(flIOs)},
	{"flush_rawactive", items{94, 94, 23, 24, 102}, short, counter, msec, sumFields(flTime)},
	{"inflight", items{95, 95, 24, 25, 104}, queue, instant, none, sumFields(inFlight)},
}

// ioTable returns the metrics of ioRows for one domain. fetch turns an ioFunc into
// the FetchFunc of the domain.
func ioTable(common pmda.Metric, domain, cluster int, prefix string, fetch func(ioFunc) pmda.FetchFunc) []pmda.Metric {
	list := make([]row, len(ioRows))
	for i, r := range ioRows {
		list[i] = row{cluster, r.items[domain], prefix + r.name, r.types[domain], r.sem, r.units, fetch(r.f)}
	}
	return table(common, list)
}

func diskMetrics(h *host) []pmda.Metric {
	files := newDiskFiles(h)
	devs := files.disksOf(kindDisk, indomDisk, "per disk", nil)
	partitions := files.disksOf(kindPartition, indomPartition, "per partition", nil)
	dm := files.disksOf(kindDM, indomDM, "per dm device", files.dmName)
	md := files.disksOf(kindMD, indomMD, "per md device", files.mdName)
	sized := func(s *disks) pmda.Metric {
		return pmda.Metric{InDom: s.indom, Source: &pmda.Source{Read: s.readSizes}}
	}
	kernel := pmda.FromData(func(v *pmda.Value, k *disk) { v.SetString(k.kernel) })
	scheduler := pmda.FromData(func(v *pmda.Value, k *disk) { v.SetBytes(files.scheduler(k)) })
	wwid := pmda.FromData(func(v *pmda.Value, k *disk) { v.SetBytes(files.wwid(k)) })
	status := pmda.FromData(func(v *pmda.Value, k *disk) { v.SetInt(int64(files.mdStatus(k))) })
	return slices.Concat(
		ioTable(pmda.Metric{InDom: devs.indom}, ofDisks, 0, "disk.dev.", perDisk),
		table(pmda.Metric{InDom: devs.indom}, []row{
			{0, 59, "disk.dev.scheduler", str, discrete, none, scheduler},
			{0, 103, "hinv.map.scsi_id", str, discrete, none, wwid},
		}),
		table(sized(devs), []row{
			{0, 87, "disk.dev.capacity", u64, discrete, kbyte, perDisk(capacity)},
		}),
		table(pmda.Metric{Source: devs.source}, []row{
			{0, 33, "hinv.ndisk", u32, discrete, none, pmda.FromUint(func() (uint64, bool) { return uint64(devs.instances.present), true })},
		}),
		ioTable(pmda.Metric{Source: devs.source}, ofAll, 0, "disk.all.", devs.total),
		ioTable(pmda.Metric{InDom: partitions.indom}, ofPartitions, 10, "disk.partitions.", perDisk),
		table(sized(partitions), []row{
			{10, 16, "disk.partitions.capacity", u64, discrete, kbyte, perDisk(capacity)},
		}),
		ioTable(pmda.Metric{InDom: dm.indom}, ofVolumes, 54, "disk.dm.", perDisk),
		table(pmda.Metric{InDom: dm.indom}, []row{
			{54, 13, "hinv.map.dmname", str, discrete, none, kernel},
		}),
		table(sized(dm), []row{
			{54, 17, "disk.dm.capacity", u64, discrete, kbyte, perDisk(capacity)},
		}),
		ioTable(pmda.Metric{InDom: md.indom}, ofVolumes, 59, "disk.md.", perDisk),
		table(pmda.Metric{InDom: md.indom}, []row{
			{59, 13, "hinv.map.mdname", str, discrete, none, kernel},
			{60, 0, "disk.md.status", i32, instant, none, status},
		}),
		table(sized(md), []row{
			{59, 17, "disk.md.capacity", u64, discrete, kbyte, perDisk(capacity)},
		}),
		hardwareMetrics(devs),
		newWWIDs(devs).metrics(),
		zramMetrics(files.disksOf(kindZRAM, indomZRAM, "", nil)),
	)
}
