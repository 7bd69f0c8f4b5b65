package linux

import (
	"bytes"
	"context"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// zones reads /proc/zoneinfo, proc(5), which has numbers for each zone of memory.
// The first zone of a NUMA node also has the numbers of the node.
//
//	Node 0, zone      DMA
//	  per-node stats
//	      nr_inactive_anon 45824
//	  pages free     3840
//	        min      23
//	        protection: (0, 3019, 10571, 10571, 10571)
//	      nr_free_pages 3840
//
// Instances have names like DMA::node0 and, for the numbers of a node, node0. A zone
// without memory is not an instance.
//
// C differs: it has no nr_free_pages.
type zones struct {
	file      *sysfile.File
	pageSize  uint64
	instances *instances[zone]
	reserves  *instances[reserve]
	index     map[string]int // item by name

	current, discard      zone // the zone that is being read; takes the lines of a node that add refused
	zoneName, reserveName []byte
}

type zone struct {
	node   int
	name   string // of the zone; "" for a node
	values [len(zoneFields)]optionalUint
}

// A reserve is the number of pages in a zone that allocations for a higher zone must
// leave free.
type reserve struct {
	node int
	zone string
	low  int    // index in the line
	n    uint64 // pages
}

// zoneFields are the names of the metrics mem.zoneinfo by item. Except for zoneNames
// they are the kernel's names.
var zoneFields = [...]string{
	"free",
	"min",
	"low",
	"high",
	"scanned",
	"spanned",
	"present",
	"managed",
	"nr_free_pages",
	"nr_alloc_batch",
	"nr_inactive_anon",
	"nr_active_anon",
	"nr_inactive_file",
	"nr_active_file",
	"nr_unevictable",
	"nr_mlock",
	"nr_anon_pages",
	"nr_mapped",
	"nr_file_pages",
	"nr_dirty",
	"nr_writeback",
	"nr_slab_reclaimable",
	"nr_slab_unreclaimable",
	"nr_page_table_pages",
	"nr_kernel_stack",
	"nr_unstable",
	"nr_bounce",
	"nr_vmscan_write",
	"nr_vmscan_immediate_reclaim",
	"nr_writeback_temp",
	"nr_isolated_anon",
	"nr_isolated_file",
	"nr_shmem",
	"nr_dirtied",
	"nr_written",
	"numa_hit",
	"numa_miss",
	"numa_foreign",
	"numa_interleave",
	"numa_local",
	"numa_other",
	"workingset_refault",
	"workingset_activate",
	"workingset_nodereclaim",
	"nr_anon_transparent_hugepages",
	"nr_free_cma",
	"cma",
	"nr_swapcached",
	"nr_shmem_hugepages",
	"nr_shmem_pmdmapped",
	"nr_file_hugepages",
	"nr_file_pmdmapped",
	"nr_kernel_misc_reclaimable",
	"nr_foll_pin_acquired",
	"nr_foll_pin_released",
	"workingset_refault_anon",
	"workingset_refault_file",
	"workingset_active_anon",
	"workingset_active_file",
	"workingset_restore_anon",
	"workingset_restore_file",
	"nr_zspages",
	"nr_zone_inactive_file",
	"nr_zone_active_file",
	"nr_zone_inactive_anon",
	"nr_zone_active_anon",
	"nr_zone_unevictable",
	"nr_zone_write_pending",
}

// zoneNames maps names of the kernel to other names of metrics.
var zoneNames = map[string]string{
	"node_scanned":             "scanned",
	"workingset_activate_anon": "workingset_active_anon",
	"workingset_activate_file": "workingset_active_file",
}

const zonePresent = 6 // item of present

func newZones(h *host) *zones {
	z := &zones{
		file:      h.file("proc/zoneinfo"),
		pageSize:  uint64(h.PageSize),
		instances: newInstances[zone](h, indomZone),
		reserves:  newUnsavedInstances[reserve](h, indomProtection),
		index:     make(map[string]int),
	}
	for i, name := range zoneFields {
		z.index[name] = i
	}
	for kernel, name := range zoneNames {
		z.index[kernel] = z.index[name]
	}
	return z
}

func (z *zones) read(context.Context, *pmda.Request) error {
	b, err := z.file.Read()
	z.parse(b)
	return err
}

func (z *zones) parse(b []byte) {
	z.instances.begin()
	z.reserves.begin()
	defer z.instances.end()
	defer z.reserves.end()
	for len(b) > 0 {
		line, rest := sysfile.CutLine(b)
		node, name, _, ok := zoneLine(line)
		if !ok {
			b = rest
			continue
		}
		b = z.zone(node, name, rest)
	}
}

// zone reads the lines of a zone, up to the next one.
func (z *zones) zone(node int, name, b []byte) (rest []byte) {
	z.zoneName = append(append(z.zoneName[:0], name...), "::node"...)
	z.zoneName = strconv.AppendInt(z.zoneName, int64(node), 10)
	z.current = zone{node: node}
	dest := &z.current // of the numbers that follow
	for len(b) > 0 && !bytes.HasPrefix(b, []byte("Node")) {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, value := sysfile.Field(line)
		switch string(word) {
		case "per-node":
			dest = &z.discard
			if n := z.instances.add(z.zoneName[len(name)+len("::"):]); n != nil {
				dest = n
				*dest = zone{node: node}
			}
			continue
		case "protection:":
			z.parseReserves(node, name, value)
			continue
		case "pages":
			dest = &z.current
			word, value = sysfile.Field(value)
		}
		if i, ok := z.index[string(word)]; ok {
			dest.values[i].parseNamed(word, value)
		}
	}
	if i := z.instances.add(z.zoneName); i != nil {
		z.current.name = i.name
		if z.current.name == "" {
			z.current.name = string(name)
		}
		*i = z.current
		// As in PCP, a zone has an id even while it is not an instance.
		if i.values[zonePresent].n == 0 {
			z.instances.hide(z.zoneName)
		}
	}
	return b
}

// parseReserves parses the numbers of a line protection.
func (z *zones) parseReserves(node int, name, numbers []byte) {
	full := append(z.reserveName[:0], z.zoneName...)
	full = append(full, "::lowmem_reserved"...)
	for low, stem := 0, len(full); ; low++ {
		var word []byte
		if word, numbers = sysfile.Field(numbers); len(word) == 0 {
			break
		}
		n, ok := sysfile.Uint(bytes.Trim(word, "(,)"))
		full = strconv.AppendInt(full[:stem], int64(low), 10)
		if !ok {
			continue
		}
		if k := z.reserves.add(full); k != nil {
			if k.zone == "" {
				k.zone = string(name)
			}
			k.node, k.low, k.n = node, low, n
		}
	}
	z.reserveName = full
}

// kib converts a number of pages to KiB.
func (z *zones) kib(pages uint64) uint64 { return metrics.Scale(pages, z.pageSize, 1024) }

func (z *zones) metrics() []pmda.Metric {
	source := &pmda.Source{Read: z.read}
	indom := &pmda.InDom{
		Serial: indomZone,
		Insts:  z.instances,
		Source: source,
		Labels: pmda.Labels{"device_type": []string{"memory", "numa_node"}, "indom_name": "per zone per numa_node"},
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			d := z.instances.get(i.Name)
			if d.name == "" {
				return pmda.Labels{"numa_node": d.node}, nil
			}
			return pmda.Labels{"numa_node": d.node, "zone": d.name}, nil
		},
	}
	reserves := &pmda.InDom{
		Serial: indomProtection,
		Insts:  z.reserves,
		Source: source,
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			d := z.reserves.get(i.Name)
			return pmda.Labels{"numa_node": d.node, "zone": d.zone, "lowmem_reserved": d.low}, nil
		},
	}
	ms := table(pmda.Metric{InDom: reserves}, []row{
		{70, 0, "mem.zoneinfo.protection", u64, instant, kbyte, pmda.FromData(func(v *pmda.Value, d *reserve) { v.SetUint(z.kib(d.n)) })},
	})
	for i, name := range zoneFields {
		// As in PCP, all are in KiB, even counts of events.
		ms = append(ms, table(pmda.Metric{InDom: indom}, []row{
			{68, i, "mem.zoneinfo." + name, u64, instant, kbyte, pmda.FromData(func(v *pmda.Value, d *zone) {
				if f := d.values[i]; f.ok {
					v.SetUint(z.kib(f.n))
				}
			})},
		})...)
	}
	return ms
}
