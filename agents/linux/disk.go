package linux

import (
	"bytes"
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Fields of a line of /proc/diskstats behind the name, in the kernel's
// Documentation/admin-guide/iostats.rst. Sectors have 512 bytes, times are in
// milliseconds. Linux has discards since 4.18, flushes since 5.5.
const (
	rdIOs = iota
	rdMerges
	rdSectors
	rdTime
	wrIOs
	wrMerges
	wrSectors
	wrTime
	inFlight
	busyTime
	queueTime
	dsIOs
	dsMerges
	dsSectors
	dsTime
	flIOs
	flTime

	newFields = dsIOs // the first that older kernels lack
)

// C differs: it reads on behind a broken word, or takes the line for one of
// Linux 2.6.24, and so has numbers in the wrong places. /proc/net/dev likewise.

// A disk is what is known of an instance of a domain of disks.
type disk struct {
	kernel []byte // its name in diskstats
	sys    string // and below /sys/block
	io     record
	blocks uint64 // of 1024 bytes; 0 if it is not known
}

// disks are /proc/diskstats and, for the sizes, /proc/partitions:
//
//	 254       0 vda 513309 86013 14015802 250991 251010 176895 12280328 145650 0 68656 422860 349881 64 19674368 26179 1248 39
//
//	major minor  #blocks  name
//	 254        0  268435456 vda
type disks struct {
	h          *host
	stats      *file
	partitions *file
	text       []byte // of stats
	source     *pmda.Source
	insts      *insts[disk]
	indom      *pmda.InDom
}

func newDisks(h *host) *disks {
	d := &disks{
		h:          h,
		stats:      h.file("proc/diskstats"),
		partitions: h.file("proc/partitions"),
		insts:      newInsts[disk](h, indomDisk),
	}
	d.source = &pmda.Source{Read: d.read}
	d.indom = diskInDom(indomDisk, d.insts, d.source, "per disk")
	return d
}

func diskInDom(serial int, i pmda.Instances, s *pmda.Source, name string) *pmda.InDom {
	return &pmda.InDom{
		Serial: serial,
		Insts:  i,
		Source: s,
		Labels: pmda.Labels{"device_type": "block", "indom_name": name},
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"device_name": i.Name}, nil
		},
	}
}

func (d *disks) read(context.Context, *pmda.Request) (err error) {
	d.text, err = d.stats.read()
	d.parse(d.text)
	return err
}

func (d *disks) parse(b []byte) {
	d.insts.begin()
	defer d.insts.end()
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		_, _, name, rest, ok := device(line)
		if !ok || diskKind(name) != aDisk {
			continue
		}
		if k := d.insts.add(name); k != nil {
			k.set(name, rest)
		}
	}
}

// set sets k to what its line has.
func (k *disk) set(name, line []byte) {
	if !bytes.Equal(k.kernel, name) {
		k.kernel = append(k.kernel[:0], name...)
		// /sys has "cciss!c0d0" for "cciss/c0d0".
		k.sys = strings.ReplaceAll(string(name), "/", "!")
	}
	k.io.parse(line)
	k.blocks = 0
}

// readSizes reads /proc/partitions. The source of disks was read before.
func (d *disks) readSizes(context.Context, *pmda.Request) error {
	b, err := d.partitions.read()
	d.parseSizes(b)
	return err
}

func (d *disks) parseSizes(b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		_, _, size, name, ok := device(line)
		n, isSize := uintOf(size)
		name, _ = field(name)
		if i := d.insts.known[string(name)]; i != nil && ok && isSize {
			i.data.blocks = n
		}
	}
}

// device takes the numbers of a device and the next word from a line.
func device(line []byte) (major, minor uint64, word, rest []byte, ok bool) {
	first, line := field(line)
	second, line := field(line)
	word, rest = field(line)
	major, ok1 := uintOf(first)
	minor, ok2 := uintOf(second)
	return major, minor, word, rest, ok1 && ok2 && len(word) > 0
}

// sum is the sum of fields of diskstats.
func sum(fields ...int) pmda.FetchFunc { return sumBy(1, fields) }

// kib is the sum of fields in sectors, in KiB.
func kib(sectors ...int) pmda.FetchFunc { return sumBy(2, sectors) }

func sumBy(unit uint64, fields []int) pmda.FetchFunc {
	return of(func(v *pmda.Value, k *disk) {
		if n, ok := k.io.sum(fields, newFields); ok {
			v.Uint(n / unit)
		}
	})
}

func (d *disks) metrics() []pmda.Metric {
	capacity := of(func(v *pmda.Value, k *disk) {
		if k.blocks > 0 {
			v.Uint(k.blocks)
		}
	})
	scheduler := of(func(v *pmda.Value, k *disk) { v.Bytes(d.scheduler(k)) })
	wwid := of(func(v *pmda.Value, k *disk) { v.Bytes(d.wwid(k)) })
	ms := table(pmda.Metric{InDom: d.indom}, []row{
		{0, 4, "disk.dev.read", u64, counter, count, sum(rdIOs)},
		{0, 5, "disk.dev.write", u64, counter, count, sum(wrIOs)},
		{0, 6, "disk.dev.blkread", u64, counter, count, sum(rdSectors)},
		{0, 7, "disk.dev.blkwrite", u64, counter, count, sum(wrSectors)},
		{0, 28, "disk.dev.total", u64, counter, count, sum(rdIOs, wrIOs)},
		{0, 36, "disk.dev.blktotal", u64, counter, count, sum(rdSectors, wrSectors)},
		{0, 38, "disk.dev.read_bytes", u64, counter, kbyte, kib(rdSectors)},
		{0, 39, "disk.dev.write_bytes", u64, counter, kbyte, kib(wrSectors)},
		{0, 40, "disk.dev.total_bytes", u64, counter, kbyte, kib(rdSectors, wrSectors)},
		{0, 46, "disk.dev.avactive", u32, counter, msec, sum(busyTime)},
		{0, 47, "disk.dev.aveq", u32, counter, msec, sum(queueTime)},
		{0, 49, "disk.dev.read_merge", u64, counter, count, sum(rdMerges)},
		{0, 50, "disk.dev.write_merge", u64, counter, count, sum(wrMerges)},
		{0, 59, "disk.dev.scheduler", str, discrete, none, scheduler},
		{0, 72, "disk.dev.read_rawactive", u32, counter, msec, sum(rdTime)},
		{0, 73, "disk.dev.write_rawactive", u32, counter, msec, sum(wrTime)},
		{0, 79, "disk.dev.total_rawactive", u32, counter, msec, sum(rdTime, wrTime)},
		{0, 88, "disk.dev.discard", u64, counter, count, sum(dsIOs)},
		{0, 89, "disk.dev.blkdiscard", u64, counter, count, sum(dsSectors)},
		{0, 90, "disk.dev.discard_bytes", u64, counter, kbyte, kib(dsSectors)},
		{0, 91, "disk.dev.discard_merge", u64, counter, count, sum(dsMerges)},
		{0, 92, "disk.dev.discard_rawactive", u32, counter, msec, sum(dsTime)},
		{0, 93, "disk.dev.flush", u64, counter, count, sum(flIOs)},
		{0, 94, "disk.dev.flush_rawactive", u32, counter, msec, sum(flTime)},
		{0, 95, "disk.dev.inflight", u32, instant, none, sum(inFlight)},
		{0, 103, "hinv.map.scsi_id", str, discrete, none, wwid},
	})
	ms = append(ms, table(pmda.Metric{InDom: d.indom, Source: &pmda.Source{Read: d.readSizes}}, []row{
		{0, 87, "disk.dev.capacity", u64, discrete, kbyte, capacity},
	})...)
	return append(ms, table(pmda.Metric{Source: d.source}, []row{
		{0, 33, "hinv.ndisk", u32, discrete, none, number(func() (uint64, bool) { return uint64(d.insts.seen), true })},
	})...)
}

var unknown = []byte("unknown")

// scheduler returns the one in brackets of /sys/block/DISK/queue/scheduler:
//
//	none [mq-deadline] kyber
func (d *disks) scheduler(k *disk) []byte {
	_, b, _ := bytes.Cut(d.h.sys.read("sys", "block", k.sys, "queue", "scheduler"), []byte{'['})
	name, _, ok := bytes.Cut(b, []byte{']'})
	if !ok {
		return unknown
	}
	return name
}

// wwid returns the world wide name of a disk. /sys has the kind of it as a word,
// SCSI as a digit.
func (d *disks) wwid(k *disk) []byte {
	b := d.h.sys.read("sys", "block", k.sys, "device", "wwid")
	if b == nil {
		b = d.h.sys.read("sys", "block", k.sys, "wwid")
	}
	if len(b) == 0 {
		return unknown
	}
	for word, digit := range wwidKinds {
		if bytes.HasPrefix(b, []byte(word)) {
			b = b[len(word)-1:]
			b[0] = digit
			break
		}
	}
	return b
}

var wwidKinds = map[string]byte{"t10.": '1', "eui.": '2', "naa.": '3'}
