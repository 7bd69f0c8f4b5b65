package linux

import (
	"bytes"
	"maps"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// A kind is the kind of a block device. Each kind has an instance domain.
type kind uint8

const (
	kindNone kind = iota // not an instance: loop, ram, cdrom, xvm
	kindDisk
	kindPartition
	kindDM   // device mapper
	kindMD   // software RAID
	kindZRAM // compressed memory
	kindWWID
)

// diskKinds knows the kinds of the block devices in /proc/diskstats. /sys says which are partitions
// and which are hidden. Without /sys, names do: the kernel names a partition after its disk.
//
// C differs: names alone decide. A disk whose name ends in a digit, such as zd0 or bcache0, is a
// partition, and nvme0c0n1 is a disk beside nvme0n1.
type diskKinds struct {
	h       *host
	text    []byte                  // of diskstats
	lines   map[string][]byte       // what follows the name, by names; empty until it is needed
	devices map[string]*blockDevice // by names
	reads   int                     // of diskstats
	found   int                     // devices in the last read
}

// A blockDevice is what is known about a device without its line.
type blockDevice struct {
	number    uint64
	read      int    // the last one that has it
	file      string // its name in /sys
	inSys     bool   // it is in /sys, and the following stays as it is
	partition bool
	hidden    bool
	hasIO     bool // it is a disk that has had I/O, so stacked is known
	stacked   bool // on other block devices (slaves)
}

func newDiskKinds(h *host) *diskKinds {
	return &diskKinds{h: h, reads: 1, lines: make(map[string][]byte), devices: make(map[string]*blockDevice)}
}

// begin is called for each text of diskstats.
func (d *diskKinds) begin(text []byte) {
	if len(d.devices) > d.found { // some are gone
		maps.DeleteFunc(d.devices, func(_ string, b *blockDevice) bool { return b.read != d.reads })
	}
	d.reads, d.found = d.reads+1, 0
	d.text = text
	clear(d.lines)
}

// of returns the kind of a device from its line, and whether it has the I/O of other devices, such as
// bcache0 of its disks.
func (d *diskKinds) of(name []byte, number uint64, rest []byte) (k kind, stacked bool) {
	hasPrefix := func(prefix string) bool { return bytes.HasPrefix(name, []byte(prefix)) }
	switch {
	case hasPrefix("dm-"):
		return kindDM, false
	case hasPrefix("loop"), hasPrefix("ram"), isCDROM(name):
		return kindNone, false
	}
	head, isPath := nvmeHead(name)
	b := d.device(name, number)
	switch {
	case b.partition:
		return kindPartition, false
	case hasPrefix("md"):
		return kindMD, false
	case hasPrefix("zram"):
		return kindZRAM, false
	case bytes.Contains(name, []byte("xvm")):
		return kindNone, false
	case len(name) == 18 && name[0] >= '1' && name[0] <= '3':
		return kindWWID, false
	case isPath:
		// The head has the I/O of its paths. In kernels before 6.4 it may have no counters.
		if line, ok := d.line(head); ok && (counts(line) || !counts(rest)) {
			return kindNone, false
		}
	case b.hidden:
		return kindNone, false
	}
	if b.inSys && !b.hasIO && counts(rest) {
		b.hasIO, b.stacked = true, d.isStacked(b.file)
	}
	return kindDisk, b.stacked
}

// device returns what is known about a device. One that is not in /sys is looked up again in each
// read: /sys may be mounted later.
func (d *diskKinds) device(name []byte, number uint64) *blockDevice {
	b := d.devices[string(name)]
	if b == nil || b.number != number {
		key := string(name)
		b = &blockDevice{number: number, file: strings.ReplaceAll(key, "/", "!")}
		d.devices[key] = b
	}
	if b.read == d.reads {
		return b
	}
	b.read = d.reads
	d.found++
	if b.inSys {
		return b
	}
	in := func(dir, below string) *sysfile.Reader { return d.h.hostReader.Path(dir).Name(b.file).Str(below) }
	switch {
	case in("/sys/class/block/", "").Exists():
		b.inSys, b.partition = true, in("/sys/class/block/", "/partition").Exists()
	case in("/sys/block/", "").Exists():
		b.inSys, b.partition = true, false
	default:
		b.partition = d.isPartition(name)
	}
	if b.inSys && !b.partition {
		b.hidden = d.isHidden(b.file)
	}
	return b
}

func (d *diskKinds) isHidden(file string) bool {
	return string(d.h.hostReader.Path("/sys/block/").Name(file).Str("/hidden").Value()) == "1"
}

// isStacked reports whether a device has slaves. Hidden ones are the paths of a disk, in Linux 4.17.
func (d *diskKinds) isStacked(file string) bool {
	var slaves []string
	_ = d.h.hostReader.Path("/sys/block/").Name(file).Str("/slaves").List(func(name []byte, _ byte) {
		slaves = append(slaves, string(name))
	})
	for _, slave := range slaves {
		if !d.isHidden(slave) {
			return true
		}
	}
	return false
}

// line returns what follows the name of a device in diskstats.
func (d *diskKinds) line(name []byte) (rest []byte, ok bool) {
	if len(d.lines) == 0 {
		for b := d.text; len(b) > 0; {
			var line []byte
			line, b = sysfile.CutLine(b)
			if _, _, word, rest, ok := device(line); ok {
				d.lines[string(word)] = rest
			}
		}
	}
	rest, ok = d.lines[string(name)]
	return rest, ok
}

// isPartition reports whether a name is that of an earlier device and a number, with a p between them
// if the other name ends in a digit: sda1, nvme0n1p1, cciss/c0d0p1.
func (d *diskKinds) isPartition(name []byte) bool {
	base := bytes.TrimRight(name, "0123456789")
	if len(base) == len(name) || len(base) == 0 {
		return false
	}
	if whole := base[:len(base)-1]; base[len(base)-1] == 'p' && len(whole) > 0 && isDigit(whole[len(whole)-1]) {
		base = whole
	}
	b := d.devices[string(base)]
	return b != nil && b.read == d.reads
}

// counts reports whether a line of diskstats has I/O.
func counts(line []byte) bool {
	var io sysfile.Record
	io.Parse(line)
	return io.Nums[rdIOs]|io.Nums[wrIOs]|io.Nums[dsIOs]|io.Nums[flIOs] != 0
}

// nvmeHead returns the multipath disk that nvme0c1n2 is a path to: nvme0n2.
func nvmeHead(name []byte) (head []byte, ok bool) {
	rest, ok := bytes.CutPrefix(name, []byte("nvme"))
	subsystem := leadingDigits(rest)
	if !ok || len(subsystem) == 0 {
		return nil, false
	}
	rest, ok = bytes.CutPrefix(rest[len(subsystem):], []byte{'c'})
	controller := leadingDigits(rest)
	rest = rest[len(controller):]
	if !ok || len(controller) == 0 || len(rest) < 2 || rest[0] != 'n' || len(leadingDigits(rest[1:])) != len(rest)-1 {
		return nil, false
	}
	return append(append([]byte("nvme"), subsystem...), rest...), true
}

func leadingDigits(b []byte) []byte {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return b[:n]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isCDROM(name []byte) bool {
	return len(name) > 2 && string(name[:2]) == "sr" && isDigit(name[2])
}
