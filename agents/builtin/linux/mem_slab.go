package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// slabs reads /proc/slabinfo, slabinfo(5), which only root may read.
//
//	slabinfo - version: 2.1
//	# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
//	kmalloc-64          8640   8640     64   64    1 : tunables    0    0    0 : slabdata    135    135      0
//
// C differs: it also reads the format of Linux 2.4, and stops at a malformed line.
type slabs struct {
	h         *host
	file      *sysfile.File
	instances *instances[slab]
}

type slab struct{ rec sysfile.Record }

// Indices of the numbers after the name. There are words between them.
const (
	slabActiveObjs   = 0
	slabObjs         = 1
	slabObjSize      = 2
	slabObjsPerSlab  = 3
	slabPagesPerSlab = 4
	slabActive       = 12
	slabTotal        = 13
)

func newSlabs(h *host) *slabs {
	return &slabs{h: h, file: h.file("proc/slabinfo"), instances: newUnsavedInstances[slab](h, indomSlab)}
}

func (s *slabs) read(_ context.Context, r *pmda.Request) (err error) {
	var b []byte
	if s.h.mayReadRootOnly(r) {
		b, err = s.file.Read()
	}
	s.parse(b)
	return err
}

func (s *slabs) parse(b []byte) {
	s.instances.begin()
	defer s.instances.end()
	header, b := sysfile.CutLine(b)
	if !bytes.HasPrefix(header, []byte("slabinfo - version: 2.")) {
		return
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		if bytes.HasPrefix(line, []byte{'#'}) {
			continue
		}
		name, rest := sysfile.Field(line)
		if i := s.instances.add(name); i != nil {
			i.rec.Parse(rest)
		}
	}
}

func (s *slabs) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomSlab,
		Insts:  s.instances,
		Source: &pmda.Source{Read: s.read},
		Labels: pmda.Labels{"device_type": "memory", "indom_name": "per slab"},
	}
	value := func(index int) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, i *slab) {
			if n, ok := i.rec.At(index); ok {
				v.SetUint(n)
			}
		})
	}
	size := pmda.FromData(func(v *pmda.Value, i *slab) {
		objs, ok1 := i.rec.At(slabActiveObjs)
		per, ok2 := i.rec.At(slabObjsPerSlab)
		pages, ok3 := i.rec.At(slabPagesPerSlab)
		if ok1 && ok2 && ok3 && per > 0 {
			v.SetUint(metrics.Scale(objs, metrics.Scale(pages, uint64(s.h.PageSize), 1), per))
		}
	})
	return table(pmda.Metric{InDom: indom}, []row{
		{20, 0, "mem.slabinfo.objects.active", u64, instant, none, value(slabActiveObjs)},
		{20, 1, "mem.slabinfo.objects.total", u64, instant, none, value(slabObjs)},
		{20, 2, "mem.slabinfo.objects.size", u32, instant, octet, value(slabObjSize)},
		{20, 3, "mem.slabinfo.slabs.active", u32, instant, none, value(slabActive)},
		{20, 4, "mem.slabinfo.slabs.total", u32, instant, none, value(slabTotal)},
		{20, 5, "mem.slabinfo.slabs.pages_per_slab", u32, instant, none, value(slabPagesPerSlab)},
		{20, 6, "mem.slabinfo.slabs.objects_per_slab", u32, instant, none, value(slabObjsPerSlab)},
		{20, 7, "mem.slabinfo.slabs.total_size", u64, instant, octet, size},
	})
}
