package linux

import (
	"bytes"
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
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

// shortFields are what Linux before 2.6.25 has of a partition.
var shortFields = [...]int{rdIOs, rdSectors, wrIOs, wrSectors}

// C differs: it reads on behind a broken word, or takes the line for one of
// Linux 2.6.24, and so has numbers in the wrong places. /proc/net/dev likewise.
// It adds two times of a disk in 32 bits, and up discards and flushes of paths.

// A disk is what is known of an instance of a domain of disks.
type disk struct {
	kernel string // its name in diskstats
	sys    string // and below /sys/block
	io     sysfile.Record
	blocks uint64     // of 1024 bytes; 0 if it is not known
	zram   *zramFiles // nil if it is another kind
}

// diskFiles are /proc/diskstats and, for the sizes, /proc/partitions:
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
	statsSource, sizesSource *pmda.Source
}

// maxDiskPiece is more than the kernel writes of a disk, which has 255 partitions or
// less, and more than a page.
const maxDiskPiece = 1 << 16

func newDiskFiles(h *host) *diskFiles {
	d := &diskFiles{h: h, stats: h.file("proc/diskstats").NeverBlocks(maxDiskPiece), partitions: h.file("proc/partitions").NeverBlocks(maxDiskPiece)}
	d.statsSource = &pmda.Source{Read: func(context.Context, *pmda.Request) (err error) {
		d.statsText, err = d.stats.Read()
		return err
	}}
	d.sizesSource = &pmda.Source{Read: func(context.Context, *pmda.Request) (err error) {
		d.sizesText, err = d.partitions.Read()
		return err
	}}
	return d
}

// disks are the lines of one kind, which are an instance domain.
type disks struct {
	*diskFiles
	kind         kind
	nameOf       func(kernel []byte, dev uint64) []byte // nil: as the kernel
	source       *pmda.Source
	insts        *instances[disk]
	indom        *pmda.InDom
	byKernelName map[string]*disk // by the kernel's names, if there is a naming
}

// disksOf returns the disks of a kind. label is what they are called in labels, if
// they have any. naming returns the name of one, "" if it is
// not to be seen; it is nil if they have the names of the kernel.
func (d *diskFiles) disksOf(k kind, serial int, label string, nameOf func([]byte, uint64) []byte) *disks {
	s := &disks{diskFiles: d, kind: k, nameOf: nameOf, insts: newInstances[disk](d.h, serial), byKernelName: make(map[string]*disk)}
	s.source = &pmda.Source{Read: s.read}
	s.indom = &pmda.InDom{Serial: serial, Insts: s.insts, Source: s.source}
	if label != "" {
		s.indom.Labels = pmda.Labels{"device_type": "block", "indom_name": label}
		s.indom.InstLabels = func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"device_name": i.Name}, nil
		}
	}
	return s
}

func (s *disks) read(ctx context.Context, r *pmda.Request) error {
	err := r.Read(ctx, s.statsSource)
	s.parse(s.statsText)
	return err
}

func (s *disks) parse(b []byte) {
	s.insts.begin()
	defer s.insts.end()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		major, minor, name, rest, ok := device(line)
		if !ok || diskKind(name) != s.kind {
			continue
		}
		inst := name
		if s.nameOf != nil {
			inst = s.nameOf(name, deviceNumber(major, minor))
		}
		if len(inst) == 0 {
			continue
		}
		if k := s.insts.add(inst); k != nil {
			k.set(name, rest)
			if s.kind == kindPartition && k.io.Words == len(shortFields) {
				k.expandShort()
			}
		}
	}
}

// set sets k to what its line has.
func (k *disk) set(name, line []byte) {
	if k.kernel != string(name) {
		k.kernel = string(name)
		// /sys has "cciss!c0d0" for "cciss/c0d0".
		k.sys = strings.ReplaceAll(k.kernel, "/", "!")
	}
	k.io.Parse(line)
	k.blocks = 0
}

// expandShort puts the numbers of a short line into their places.
func (k *disk) expandShort() {
	short := k.io
	k.io = sysfile.Record{Words: newFields, Bad: 1<<newFields - 1}
	for i, place := range shortFields {
		if n, ok := short.At(i); ok {
			k.io.Nums[place] = n
			k.io.Bad &^= 1 << place
		}
	}
}

// readSizes reads /proc/partitions. The source of disks was read before.
func (s *disks) readSizes(ctx context.Context, r *pmda.Request) error {
	err := r.Read(ctx, s.sizesSource)
	s.parseSizes(s.sizesText)
	return err
}

func (s *disks) parseSizes(b []byte) {
	clear(s.byKernelName)
	for _, i := range s.insts.byName {
		s.byKernelName[i.data.kernel] = &i.data
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

// device takes the numbers of a device and the next word from a line.
func device(line []byte) (major, minor uint64, word, rest []byte, ok bool) {
	first, line := sysfile.Field(line)
	second, line := sysfile.Field(line)
	word, rest = sysfile.Field(line)
	major, ok1 := sysfile.Uint(first)
	minor, ok2 := sysfile.Uint(second)
	return major, minor, word, rest, ok1 && ok2 && len(word) > 0
}

// An ioFunc is a number that there is of a disk.
type ioFunc func(k *disk) (n uint64, ok bool)

// sumFields is the sum of fields of diskstats.
func sumFields(fields ...int) ioFunc {
	return func(k *disk) (uint64, bool) { return k.io.Sum(fields, newFields) }
}

// sumKiB is the sum of fields in sectors, in KiB.
func sumKiB(sectors ...int) ioFunc {
	return func(k *disk) (uint64, bool) {
		n, ok := k.io.Sum(sectors, newFields)
		return n / 2, ok
	}
}

// capacity is the size of a disk in KiB.
func capacity(k *disk) (uint64, bool) { return k.blocks, k.blocks > 0 }

// perDisk is the number of each disk.
func perDisk(f ioFunc) pmda.FetchFunc {
	return pmda.Of(func(v *pmda.Value, k *disk) {
		if n, ok := f(k); ok {
			v.Uint(n)
		}
	})
}

// total is the sum over the disks: none if one of them is not known, since it
// would go back.
func (s *disks) total(f ioFunc) pmda.FetchFunc {
	return pmda.Number(func() (sum uint64, ok bool) {
		for _, i := range s.insts.byName {
			n, ok := f(&i.data)
			if !ok {
				return 0, false
			}
			sum += n
		}
		return sum, true
	})
}

// blockDevice is a directory of /sys/block.
func (h *host) blockDevice(k *disk) *sysfile.Device { return h.hostReader.Device("/sys/block/", k.sys) }

var unknown = []byte("unknown")

// scheduler returns the one in brackets of /sys/block/DISK/queue/scheduler:
//
//	none [mq-deadline] kyber
//
// C differs: it knows none of a disk with a slash in its name.
func (d *diskFiles) scheduler(k *disk) []byte {
	_, b, _ := bytes.Cut(d.h.blockDevice(k).Value("queue/scheduler"), []byte{'['})
	name, _, ok := bytes.Cut(b, []byte{']'})
	if !ok {
		return unknown
	}
	return name
}
