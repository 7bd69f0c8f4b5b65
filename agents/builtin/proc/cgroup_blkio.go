package proc

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// blkIO has the metrics of blkio (version 1) and of io.stat (version 2). The files
// have lines for block devices, so instances are pairs of a group and a device.
type blkIO struct {
	*groups           // of version 1
	v2                *groups
	devices           instances[blkStats]
	v2Devices         instances[ioStats]
	deviceNames       map[string]string // by device number, such as 8:0
	deviceNamesSource *pmda.Source
	v1PerGroup        *pmda.Source
	v2PerDevice       *pmda.Source
}

// blkOps are the operations in blkStats.ops.
var blkOps = []string{"Read", "Write", "Sync", "Async", "Total"}

// blkFiles are the files with a line for each operation. Their names are also
// parts of names of metrics.
var blkFiles = []struct {
	name     string
	dev, all int // items of the first operation
	units    pdu.Units
}{
	{"blkio.io_merged", 0, 60, count},
	{"blkio.io_queued", 5, 65, count},
	{"blkio.io_service_bytes", 10, 70, octet},
	{"blkio.io_serviced", 15, 75, count},
	{"blkio.io_service_time", 20, 80, nsec},
	{"blkio.io_wait_time", 25, 85, nsec},
	{"blkio.throttle.io_service_bytes", 32, 92, octet},
	{"blkio.throttle.io_serviced", 37, 97, count},
}

// blkStats are the numbers of one device in a group, or the sums of all its devices.
type blkStats struct {
	ops           [8][5]uint64 // by index into blkFiles and blkOps
	sectors, time uint64
	has           uint16 // a bit for each file that has numbers: of blkFiles, and hasSectors and hasTime
}

// Bits of blkStats.has after those of blkFiles.
const (
	hasSectors = 8 + iota
	hasTime
)

// maxDisks is the size of the largest /proc/diskstats that is read, in bytes. A line has about
// 110 bytes.
const maxDisks = 16 << 20

// ioStats are the numbers in a line of io.stat, by index into ioKeys.
type ioStats struct {
	nums [6]uint64
	has  [6]bool
}

var ioKeys = []string{"rbytes", "wbytes", "rios", "wios", "dbytes", "dios"}

func newBlkIO(m *mounts) *blkIO {
	b := &blkIO{
		groups: newGroups(m, indomBlkIO, "blkio", "", "block"),
		v2:     newGroups(m, indomGroup2, "", anyGroup, nil),
	}
	b.deviceNamesSource = &pmda.Source{Read: b.readDisks}
	b.v1PerGroup = &pmda.Source{Read: b.readGroups}
	b.v2PerDevice = &pmda.Source{Read: b.readIO}
	b.indom.Source = b.v1PerGroup
	return b
}

// readDisks reads the names of all block devices except loop and RAM devices:
//
//	254       0 vda 575905 ...
func (b *blkIO) readDisks(context.Context, *pmda.Request) error {
	text, _ := b.Path("/proc/diskstats").Text(maxDisks)
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a line that is cut may have the name of another disk
	b.deviceNames = make(map[string]string)
	for len(text) > 0 {
		var line []byte
		line, text = sysfile.CutLine(text)
		major, rest := sysfile.Field(line)
		minor, rest := sysfile.Field(rest)
		name, _ := sysfile.Field(rest)
		if s := string(name); s != "" && !strings.HasPrefix(s, "loop") && !strings.HasPrefix(s, "ram") {
			b.deviceNames[string(major)+":"+string(minor)] = s
		}
	}
	return nil
}

// deviceStats returns the statistics of a device in a group, which it sets to zero
// when they are first asked for in a scan.
func deviceStats[T any](s *instances[T], g *group, dev string) *T {
	data, first := s.add(g.name + "::" + dev)
	if first {
		var zero T
		*data = zero
	}
	return data
}

// readGroups reads the files of version 1. Since Linux 5.0, which has no CFQ, only those of
// throttling exist.
//
// C differs: what a file would say that does not exist is 0.
func (b *blkIO) readGroups(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, b.source); err != nil {
		return err
	}
	if err := r.ReadSource(ctx, b.deviceNamesSource); err != nil {
		return err
	}
	b.devices.beginScan()
	for _, g := range b.list {
		if err := b.ended(); err != nil {
			return err
		}
		all, _ := g.stats.(*blkStats)
		if all == nil {
			all = new(blkStats)
			g.stats = all
		}
		*all = blkStats{}
		for i, f := range blkFiles {
			b.parse(g, f.name, i, func(s *blkStats, op string, n uint64) {
				for j, name := range blkOps {
					if op == name {
						s.ops[i][j] += n
						all.ops[i][j] += n
					}
				}
			})
		}
		b.parse(g, "blkio.sectors", hasSectors, func(s *blkStats, _ string, n uint64) { s.sectors += n; all.sectors += n })
		b.parse(g, "blkio.time", hasTime, func(s *blkStats, _ string, n uint64) { s.time += n; all.time += n })
	}
	b.devices.endScan()
	return nil
}

// parse parses a file of a group, which has a bit in blkStats.has:
//
//	254:0 Read 4096
//	254:0 17
//	Total 4096
//
// It ignores the line Total, which has the sum of all devices. Numbers belong to the last
// device before them, as in io.stat.
func (b *blkIO) parse(g *group, file string, bit int, add func(s *blkStats, op string, n uint64)) {
	text := b.text(g, file)
	if text != nil { // of a group without requests it may be empty
		g.stats.(*blkStats).has |= 1 << bit
	}
	for len(text) > 0 {
		var line []byte
		line, text = sysfile.CutLine(text)
		dev, op := "", ""
		for {
			var word []byte
			if word, line = sysfile.Field(line); len(word) == 0 {
				break
			}
			if n, ok := sysfile.Uint(word); !ok && bytes.IndexByte(word, ':') >= 0 {
				dev, op = b.deviceNames[string(word)], ""
			} else if !ok {
				op = string(word)
			} else if dev != "" {
				s := deviceStats(&b.devices, g, dev)
				s.has |= 1 << bit
				add(s, op, n)
			}
		}
	}
}

// readIO reads io.stat:
//
//	254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6
//
// A device without numbers is not an instance. Linux 5.13 to 6.0 writes no newline after
// such a device, so the next one is in the same line:
//
//	254:0 254:1 rbytes=1 ...
func (b *blkIO) readIO(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, b.v2.source); err != nil {
		return err
	}
	if err := r.ReadSource(ctx, b.deviceNamesSource); err != nil {
		return err
	}
	b.v2Devices.beginScan()
	for _, g := range b.v2.list {
		if err := b.ended(); err != nil {
			return err
		}
		text := b.v2.text(g, "io.stat")
		for len(text) > 0 {
			var line []byte
			line, text = sysfile.CutLine(text)
			dev, hasNumbers := "", false
			for {
				var word []byte
				if word, line = sysfile.Field(line); len(word) == 0 {
					break
				}
				key, value, isPair := bytes.Cut(word, []byte{'='})
				if !isPair && (!hasNumbers || bytes.IndexByte(word, ':') >= 0) {
					dev = b.deviceNames[string(word)]
				}
				hasNumbers = hasNumbers || isPair
				if n, ok := sysfile.Uint(value); ok && dev != "" {
					if i := slices.Index(ioKeys, string(key)); i >= 0 {
						s := deviceStats(&b.v2Devices, g, dev)
						s.nums[i], s.has[i] = n, true
					}
				}
			}
		}
	}
	b.v2Devices.endScan()
	return nil
}

func labelDevice(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
	group, dev := splitInstance(i.Name)
	return pmda.Labels{"cgroup": group, "device_name": dev}, nil
}

func (b *blkIO) metrics() []pmda.Metric {
	block := pmda.Labels{"device_type": "block"}
	dev := &pmda.InDom{Serial: indomBlkIODev, Insts: &b.devices, Source: b.v1PerGroup, Labels: block, InstLabels: labelDevice}
	dev2 := &pmda.InDom{Serial: indomGroup2Dev, Insts: &b.v2Devices, Source: b.v2PerDevice, Labels: block, InstLabels: labelDevice}
	of := func(stats func(v *pmda.Value) *blkStats, bit int, f func(s *blkStats) uint64) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			if s := stats(v); s.has>>bit&1 != 0 {
				v.SetUint(f(s))
			}
			return nil
		}
	}
	ofAll := func(v *pmda.Value) *blkStats { return v.Data().(*group).stats.(*blkStats) }
	ofDev := func(v *pmda.Value) *blkStats { return v.Data().(*blkStats) }
	sectors := func(s *blkStats) uint64 { return s.sectors / 2 }
	ticks := func(s *blkStats) uint64 { return b.msecs(s.time) }
	var perDev, all, io []row
	for i, f := range blkFiles {
		for j, op := range blkOps {
			n := func(s *blkStats) uint64 { return s.ops[i][j] }
			name := strings.TrimPrefix(f.name, "blkio.") + "." + strings.ToLower(op)
			perDev = append(perDev, row{49, f.dev + j, "cgroup.blkio.dev." + name, u64, counter, f.units, of(ofDev, i, n)})
			all = append(all, row{49, f.all + j, "cgroup.blkio.all." + name, u64, counter, f.units, of(ofAll, i, n)})
		}
	}
	perDev = append(perDev,
		row{49, 30, "cgroup.blkio.dev.sectors", u64, counter, kbyte, of(ofDev, hasSectors, sectors)},
		row{49, 31, "cgroup.blkio.dev.time", u64, counter, msec, of(ofDev, hasTime, ticks)})
	all = append(all,
		row{49, 90, "cgroup.blkio.all.sectors", u64, counter, kbyte, of(ofAll, hasSectors, sectors)},
		row{49, 91, "cgroup.blkio.all.time", u64, counter, msec, of(ofAll, hasTime, ticks)},
		row{49, 42, "cgroup.blkio.id.container", str, discrete, none, b.containerName()})
	for i, key := range ioKeys {
		units := octet
		if strings.HasSuffix(key, "ios") {
			units = count
		}
		io = append(io, row{68, i, "cgroup.io.stat." + key, u64, counter, units, func(_ context.Context, v *pmda.Value) error {
			if s := v.Data().(*ioStats); s.has[i] {
				v.SetUint(s.nums[i])
			}
			return nil
		}})
	}
	return append(append(table(pmda.Metric{InDom: dev}, perDev), table(pmda.Metric{InDom: b.indom}, all)...), table(pmda.Metric{InDom: dev2}, io)...)
}
