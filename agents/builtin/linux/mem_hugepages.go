package linux

import (
	"context"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// hugePages are the pools of huge pages, one for each size, see the kernel's
// Documentation/admin-guide/mm/hugetlbpage.rst:
//
//	/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
//	/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages
//
// Instances have names like 2048kB and, for the pools of NUMA nodes, node0::2048kB.
type hugePages struct {
	h             *host
	nodes         *nodes
	pools, byNode *instances[hugePool]
}

// A hugePool is a pool of huge pages of one size.
type hugePool struct {
	node string // "" is all nodes
	dir  string // hugepages-2048kB
	size uint64 // of a page, in KiB
}

func newHugePages(h *host, n *nodes) *hugePages {
	return &hugePages{h: h, nodes: n, pools: newInstances[hugePool](h, indomHugePages), byNode: newInstances[hugePool](h, indomNodeHugePages)}
}

func (p *hugePages) readPools(context.Context, *pmda.Request) error {
	p.pools.begin()
	p.list(p.pools, "", "sys/kernel/mm/hugepages")
	p.pools.end()
	return nil
}

// readByNode reads the pools of all NUMA nodes.
//
// C differs: it takes the number of an instance for the number of the node.
func (p *hugePages) readByNode(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, p.nodes.source); err != nil {
		return err
	}
	p.byNode.begin()
	for i := range p.nodes.list {
		p.list(p.byNode, p.nodes.list[i].name, "sys/devices/system/node/"+p.nodes.list[i].name+"/hugepages")
	}
	p.byNode.end()
	return nil
}

// list adds the pools in a directory to s.
func (p *hugePages) list(s *instances[hugePool], node, dir string) {
	names := dirNames(p.h.path(dir))
	slices.Sort(names)
	for _, name := range names {
		inst, ok := strings.CutPrefix(name, "hugepages-")
		digits, isKB := strings.CutSuffix(inst, "kB")
		size, isNum := sysfile.Uint([]byte(digits))
		if !ok || !isKB || !isNum {
			continue
		}
		if node != "" {
			inst = node + "::" + inst
		}
		if d := s.add([]byte(inst)); d != nil {
			*d = hugePool{node: node, dir: name, size: size}
		}
	}
}

// kib returns a FetchFunc for a file with a number of pages, converted to KiB.
func (p *hugePages) kib(file string) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, d *hugePool) {
		r := p.h.hostReader
		if d.node == "" {
			r.Path("/sys/kernel/mm/hugepages/")
		} else {
			r.Path("/sys/devices/system/node/").Name(d.node).Str("/hugepages/")
		}
		if n, ok := r.Name(d.dir).Str("/").Name(file).Number(); ok {
			v.SetUint(metrics.Scale(n, d.size, 1))
		}
	})
}

func (p *hugePages) metrics() []pmda.Metric {
	size := pmda.FromData(func(v *pmda.Value, d *hugePool) { v.SetUint(d.size) })
	pools := &pmda.InDom{Serial: indomHugePages, Insts: p.pools, Source: &pmda.Source{Read: p.readPools}}
	byNode := &pmda.InDom{Serial: indomNodeHugePages, Insts: p.byNode, Source: &pmda.Source{Read: p.readByNode}}
	return slices.Concat(table(pmda.Metric{InDom: pools}, []row{
		{94, 0, "mem.hugepages.pagesize", u64, instant, kbyte, size},
		{94, 1, "mem.hugepages.free", u64, instant, kbyte, p.kib("free_hugepages")},
		{94, 2, "mem.hugepages.reserved", u64, instant, kbyte, p.kib("resv_hugepages")},
		{94, 3, "mem.hugepages.surplus", u64, instant, kbyte, p.kib("surplus_hugepages")},
		{94, 4, "mem.hugepages.totalsize", u64, instant, kbyte, p.kib("nr_hugepages")},
		// C differs: it is always 0.
		{94, 5, "mem.hugepages.overcommit", u64, instant, kbyte, p.kib("nr_overcommit_hugepages")},
	}), table(pmda.Metric{InDom: byNode}, []row{
		{95, 0, "mem.numa.hugepages.pagesize", u64, instant, kbyte, size},
		{95, 1, "mem.numa.hugepages.free", u64, instant, kbyte, p.kib("free_hugepages")},
		{95, 2, "mem.numa.hugepages.surplus", u64, instant, kbyte, p.kib("surplus_hugepages")},
		{95, 3, "mem.numa.hugepages.totalsize", u64, instant, kbyte, p.kib("nr_hugepages")},
	}))
}
