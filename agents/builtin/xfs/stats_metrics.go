package xfs

import (
	"context"
	"math"
	"os"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// maxStats is the largest number of bytes that are read of a file of statistics.
// That of Linux 6.18 has 1.5 KB.
const maxStats = 64 << 10

// A device has the statistics of the file system on one device.
type device struct {
	stats
	dir  string // below /sys/fs/xfs
	read bool
}

// readAll reads the statistics of all file systems together.
func (h *host) readAll(context.Context, *pmda.Request) error {
	b, err := h.Path("/sys/fs/xfs/stats/stats").Text(maxStats)
	if err != nil {
		b, err = h.Path("/proc/fs/xfs/stat").Text(maxStats)
	}
	if h.total.ok = err == nil; !h.total.ok {
		return nil // the kernel has no XFS
	}
	h.layout.parse(&h.total, b)
	// Older kernels have the statistics of quotas in a file of their own.
	if b, err := h.Path("/proc/fs/xfs/xqmstat").Text(maxStats); err == nil {
		h.layout.merge(&h.total, b)
	}
	return nil
}

// findDevices lists the devices with a mounted file system.
func (h *host) findDevices(context.Context, *pmda.Request) error {
	var dirs []string
	_ = h.Path("/sys/fs/xfs").List(func(name []byte, _ byte) {
		if name[0] != '.' && string(name) != "stats" {
			dirs = append(dirs, string(name))
		}
	})
	h.devices.HideAll()
	for _, dir := range dirs {
		if !h.Path("/sys/fs/xfs/").Name(dir).Str("/stats/stats").Exists() {
			continue
		}
		name := "/dev/" + dir
		if dm := h.Path("/sys/block/").Name(dir).Str("/dm/name").Value(); len(dm) > 0 {
			name = "/dev/mapper/" + string(dm)
		}
		// It fails if another device has the name up to a blank.
		_, _ = h.devices.Add(name, &device{dir: dir})
	}
	h.devices.LimitInactive(maxInactive)
	return nil
}

// readDevice reads the statistics of a device, once in a request.
//
// C differs: without the device's file the values are those of all file systems.
func (h *host) readDevice(d *device) {
	if d.read {
		return
	}
	d.read = true
	b, err := h.Path("/sys/fs/xfs/").Name(d.dir).Str("/stats/stats").Text(maxStats)
	if d.ok = err == nil; d.ok {
		h.layout.parse(&d.stats, b)
	}
}

// statisticsMetrics returns the metrics below xfs, those of xfs.perdev included.
func (h *host) statisticsMetrics() []pmda.Metric {
	source := &pmda.Source{Read: h.readAll}
	indom := &pmda.InDom{Serial: indomDevice, Insts: h.devices, Source: &pmda.Source{Read: h.findDevices}}
	texts, _ := pmda.ParseHelp(help)
	n := 2 // log.write_ratio and control.reset
	for _, l := range append(lines[:len(lines):len(lines)], buffers) {
		n += 1 + strings.Count(l.names, " ")
	}
	ms := make([]pmda.Metric, 0, 2*n)
	// add adds a metric of all file systems together, and the one for each device.
	add := func(m pmda.Metric, perDeviceItem int, set func(v *pmda.Value, s *stats)) {
		all := m
		all.Name = "xfs." + m.Name
		text, ok := texts[all.Name]
		if !ok {
			text.OneLine = btreeHelp(m.Name)
		}
		all.OneLine, all.Text, all.Source = text.OneLine, text.Text, source
		all.Fetch = func(_ context.Context, v *pmda.Value) error {
			if h.total.ok {
				set(v, &h.total)
			}
			return nil
		}
		perDevice := all
		perDevice.Name, perDevice.Cluster, perDevice.Item, perDevice.InDom, perDevice.Source = "xfs.perdev."+m.Name, 18, perDeviceItem, indom, nil
		perDevice.Fetch = pmda.FromData(func(v *pmda.Value, d *device) {
			if h.readDevice(d); d.ok {
				set(v, &d.stats)
			}
		})
		if strings.HasPrefix(m.Name, "quota.dquots") {
			perDevice.Sem = pdu.SemInstant
		}
		ms = append(ms, all, perDevice)
	}
	addLine := func(l line, cluster, perDeviceItem int) {
		for i, name := range strings.Fields(l.names) {
			at := h.layout[l.key] + l.firstNumber + i
			m := pmda.Metric{Cluster: cluster, Item: l.firstItem + i, Name: l.prefix + name, Type: pdu.MetricU32, Sem: pdu.SemCounter, Units: pdu.Count}
			set := func(v *pmda.Value, s *stats) { v.SetUint(s.nums[at]) }
			switch m.Name {
			case "log.blocks": // of 512 bytes
				m.Units = pdu.Kbyte
				set = func(v *pmda.Value, s *stats) { v.SetUint(s.nums[at] / 2) }
			case "xstrat.bytes", "write_bytes", "read_bytes", "zoned.bytes":
				m.Type, m.Units = pdu.MetricU64, pdu.Byte
			case "defer_relog":
				m.Type = pdu.MetricU64
			case "vnodes.active":
				m.Sem, m.Units = pdu.SemInstant, 0
			case "metafile.inodes":
				m.Sem = pdu.SemInstant
			}
			add(m, perDeviceItem+i, set)
		}
	}
	for _, l := range lines {
		addLine(l, 16, l.firstItem)
	}
	addLine(buffers, 17, 187)

	// C differs: the value has no fraction.
	writes := h.layout["log"]
	add(pmda.Metric{Cluster: 16, Item: 78, Name: "log.write_ratio", Type: pdu.MetricFloat, Sem: pdu.SemInstant}, 78, func(v *pmda.Value, s *stats) {
		ratio := 0.0
		if s.nums[writes] > 0 {
			ratio = float64(s.nums[writes+1]) / float64(s.nums[writes])
		}
		v.SetFloat(ratio)
	})
	return append(ms, pmda.Metric{
		Cluster: 16, Item: 79, Name: "xfs.control.reset", Type: pdu.MetricU32, Sem: pdu.SemDiscrete,
		Fetch: pmda.FromUint(func() (uint64, bool) { return 0, true }),
		Store: pmda.RootOnly(h.reset),
	})
}

// reset makes the kernel set its statistics to 0, unless the value stored is 0.
//
// C differs: any client that may store can reset, not only root.
func (h *host) reset(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
	if len(s.Values) != 1 {
		return pdu.ErrnoBadStore
	}
	n, err := s.Values[0].AsUint32()
	switch {
	case err != nil || n == 0:
		return err
	case n > math.MaxInt32:
		return pdu.ErrnoSign
	}
	for _, path := range []string{"/sys/fs/xfs/stats/stats_clear", "/proc/sys/fs/xfs/stats_clear"} {
		if err = os.WriteFile(h.Root+path, []byte("1\n"), 0); err == nil {
			return nil
		}
	}
	return pdu.ErrnoPermission
}

// btreeHelp returns the help text of a metric below btree.
func btreeHelp(name string) string {
	words := strings.Split(name, ".")
	if len(words) != 3 {
		return ""
	}
	return btreeOpHelp[words[2]] + " " + btreeTreeHelp[words[1]]
}

var btreeOpHelp = map[string]string{
	"lookup": "look-ups in", "compare": "records compared in", "insrec": "records inserted into", "delrec": "records removed from",
	"newroot": "new roots of", "killroot": "roots removed from", "increment": "steps to a next record in",
	"decrement": "steps to a previous record in", "lshift": "records moved to a left block in", "rshift": "records moved to a right block in",
	"split": "blocks split in", "join": "blocks joined in", "alloc": "blocks added to", "free": "blocks removed from", "moves": "records moved within blocks of",
}

var btreeTreeHelp = map[string]string{
	"alloc_blocks": "trees of free space by block", "alloc_contig": "trees of free space by length", "block_map": "trees of blocks of files",
	"inode": "trees of inodes", "free_inode": "trees of free inodes", "reverse_map": "trees of owners", "refcount": "trees of shared extents",
	"rmap_mem": "trees of owners in memory", "rcbag": "trees of counts in memory", "rtrmap": "real-time trees of owners",
	"rtrmap_mem": "real-time trees of owners in memory", "rtrefcount": "real-time trees of shared extents",
}
