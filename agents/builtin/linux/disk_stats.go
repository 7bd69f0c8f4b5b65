package linux

import (
	"bytes"
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Fields of a line of /proc/diskstats after the name, see the kernel's
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

	newFields = dsIOs // the first field that older kernels lack
)

// shortFields are the fields of a partition in Linux before 2.6.25.
var shortFields = [...]int{rdIOs, rdSectors, wrIOs, wrSectors}

// C differs: after a malformed word it reads on, or takes the line for one of
// Linux 2.6.24, so that numbers are in the wrong fields. The same holds for
// /proc/net/dev. It adds two times of a disk, and the discards and flushes of
// paths, in 32 bits.

// A disk is an instance of a domain of block devices.
type disk struct {
	kernel string // name in diskstats
	sys    string // name in /sys/block
	io     sysfile.Record
	blocks uint64     // of 1024 bytes; 0 if the size is not known
	zram   *zramFiles // nil for other kinds

	stacked bool // its I/O is that of other disks, too
}

// diskFiles reads /proc/diskstats and, for the sizes, /proc/partitions:
//
//	 254       0 vda 513309 86013 14015802 250991 251010 176895 12280328 145650 0 68656 422860 349881 64 19674368 26179 1248 39
//
//	major minor  #blocks  name
//	 254        0  268435456 vda
type diskFiles struct {
	h                        *host
	stats, partitions        *sysfile.File
	statsText, sizesText     []byte
	wwidText                 []byte
	kinds                    *diskKinds
	statsSource, sizesSource *pmda.Source
}

// maxDiskPiece is larger than the text that the kernel writes for a disk with all
// of its partitions, of which there are at most 255, and larger than a page.
const maxDiskPiece = 1 << 16

func newDiskFiles(h *host) *diskFiles {
	d := &diskFiles{h: h, stats: h.file("proc/diskstats").NeverBlocks(maxDiskPiece), partitions: h.file("proc/partitions").NeverBlocks(maxDiskPiece), kinds: newDiskKinds(h)}
	d.statsSource = &pmda.Source{Read: func(context.Context, *pmda.Request) (err error) {
		d.statsText, err = d.stats.Read()
		d.kinds.begin(d.statsText)
		return err
	}}
	d.sizesSource = &pmda.Source{Read: func(context.Context, *pmda.Request) (err error) {
		d.sizesText, err = d.partitions.Read()
		return err
	}}
	return d
}

// disks is the instance domain of the block devices of one kind.
type disks struct {
	*diskFiles
	kind         kind
	nameOf       func(kernel []byte, dev uint64) []byte // nil if instances have the kernel's names
	source       *pmda.Source
	instances    *instances[disk]
	indom        *pmda.InDom
	byKernelName map[string]*disk // by the kernel's names
}

// disksOf returns the disks of a kind. label is the label indom_name; if it is "",
// there are no labels. nameOf returns the name of an instance, or nothing if the
// device is not an instance. It is nil if instances have the kernel's names.
func (d *diskFiles) disksOf(k kind, serial int, label string, nameOf func([]byte, uint64) []byte) *disks {
	s := &disks{diskFiles: d, kind: k, nameOf: nameOf, instances: newInstances[disk](d.h, serial), byKernelName: make(map[string]*disk)}
	s.source = &pmda.Source{Read: s.read}
	s.indom = &pmda.InDom{Serial: serial, Insts: s.instances, Source: s.source}
	if label != "" {
		s.indom.Labels = pmda.Labels{"device_type": "block", "indom_name": label}
		s.indom.InstLabels = func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"device_name": i.Name}, nil
		}
	}
	return s
}

func (s *disks) read(ctx context.Context, r *pmda.Request) error {
	err := r.ReadSource(ctx, s.statsSource)
	s.parse(s.statsText)
	return err
}

func (s *disks) parse(b []byte) {
	s.instances.begin()
	defer s.instances.end()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		major, minor, name, rest, ok := device(line)
		if !ok {
			continue
		}
		kind, stacked := s.kinds.of(name, deviceNumber(major, minor), rest)
		if kind != s.kind {
			continue
		}
		inst := name
		if s.nameOf != nil {
			inst = s.nameOf(name, deviceNumber(major, minor))
		}
		if len(inst) == 0 {
			continue
		}
		if k := s.instances.add(inst); k != nil {
			k.set(name, rest)
			k.stacked = stacked
			if s.kind == kindPartition && k.io.Words == len(shortFields) {
				k.expandShort()
			}
		}
	}
}

// set sets k to the fields of its line.
func (k *disk) set(name, line []byte) {
	if k.kernel != string(name) {
		k.kernel = string(name)
		// /sys has "cciss!c0d0" for "cciss/c0d0".
		k.sys = strings.ReplaceAll(k.kernel, "/", "!")
	}
	k.io.Parse(line)
	k.blocks = 0
}

// expandShort moves the numbers of a short line to their fields.
func (k *disk) expandShort() {
	short := k.io
	k.io = sysfile.Record{Words: newFields, Bad: 1<<newFields - 1}
	for i, field := range shortFields {
		if n, ok := short.At(i); ok {
			k.io.Nums[field] = n
			k.io.Bad &^= 1 << field
		}
	}
}

// readSizes reads /proc/partitions. It must be called after read.
func (s *disks) readSizes(ctx context.Context, r *pmda.Request) error {
	err := r.ReadSource(ctx, s.sizesSource)
	s.parseSizes(s.sizesText)
	return err
}

func (s *disks) parseSizes(b []byte) {
	clear(s.byKernelName)
	for k := range s.instances.all {
		s.byKernelName[k.kernel] = k
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		_, _, size, name, ok := device(line)
		n, isSize := sysfile.Uint(size)
		name, _ = sysfile.Field(name)
		if k := s.byKernelName[string(name)]; k != nil && ok && isSize {
			k.blocks = n
		}
	}
}

// device parses the device numbers and the next word of a line.
func device(line []byte) (major, minor uint64, word, rest []byte, ok bool) {
	first, line := sysfile.Field(line)
	second, line := sysfile.Field(line)
	word, rest = sysfile.Field(line)
	major, ok1 := sysfile.Uint(first)
	minor, ok2 := sysfile.Uint(second)
	return major, minor, word, rest, ok1 && ok2 && len(word) > 0
}

// An ioFunc computes the value of a metric of a disk.
type ioFunc func(k *disk) (n uint64, ok bool)

// sumFields returns an ioFunc for the sum of fields of diskstats.
func sumFields(fields ...int) ioFunc {
	return func(k *disk) (uint64, bool) { return k.io.Sum(fields, newFields) }
}

// sumKiB returns an ioFunc for the sum of fields in sectors, converted to KiB.
func sumKiB(sectors ...int) ioFunc {
	return func(k *disk) (uint64, bool) {
		n, ok := k.io.Sum(sectors, newFields)
		return n / 2, ok
	}
}

// capacity returns the size of a disk in KiB.
func capacity(k *disk) (uint64, bool) { return k.blocks, k.blocks > 0 }

// perDisk returns a FetchFunc for the number of each disk.
func perDisk(f ioFunc) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, k *disk) {
		if n, ok := f(k); ok {
			v.SetUint(n)
		}
	})
}

// total returns a FetchFunc for the sum over all disks, but those whose I/O is that of others, too.
// There is no value if the number of one disk is not known, because the sum would decrease.
func (s *disks) total(f ioFunc) pmda.FetchFunc {
	return pmda.FromUint(func() (sum uint64, ok bool) {
		for k := range s.instances.all {
			if k.stacked {
				continue
			}
			n, ok := f(k)
			if !ok {
				return 0, false
			}
			sum += n
		}
		return sum, true
	})
}

// blockDevice returns the directory of a disk in /sys/block.
func (h *host) blockDevice(k *disk) *sysfile.Device { return h.hostReader.Device("/sys/block/", k.sys) }

var unknown = []byte("unknown")

// scheduler returns the scheduler in brackets in /sys/block/DISK/queue/scheduler:
//
//	none [mq-deadline] kyber
//
// C differs: it has "unknown" for disks with a slash in the name.
func (d *diskFiles) scheduler(k *disk) []byte {
	_, b, _ := bytes.Cut(d.h.blockDevice(k).Value("queue/scheduler"), []byte{'['})
	name, _, ok := bytes.Cut(b, []byte{']'})
	if !ok {
		return unknown
	}
	return name
}
