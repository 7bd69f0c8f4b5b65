package linux

import (
	"context"
	"strconv"

	"github.com/prometheus/procfs"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// buddies reads /proc/buddyinfo, proc(5): the number of free blocks of 2^0, 2^1 ...
// pages in each zone of memory.
//
//	Node 0, zone   Normal  30390  14988   9777   3936   1696   1316    833   1075    608    292    218
type buddies struct {
	h         *host
	instances *instances[buddy]
}

type buddy struct {
	node   int
	zone   string
	order  int
	blocks uint64
}

func newBuddies(h *host) *buddies {
	return &buddies{h: h, instances: newUnsavedInstances[buddy](h, indomBuddy)}
}

func (d *buddies) read(context.Context, *pmda.Request) error {
	d.instances.begin()
	defer d.instances.end()
	proc, err := procfs.NewFS(d.h.path("proc"))
	if err != nil {
		return nil // there is no /proc
	}
	zones, err := proc.BuddyInfo()
	if sysfile.Kernel.Absent(err) {
		return nil
	}
	var name []byte
	for _, z := range zones {
		node, isNum := sysfile.Uint([]byte(z.Node))
		if !isNum || node >= 1<<16 {
			continue
		}
		for order, n := range z.Sizes {
			// A float64 is not exact from 2^53 on; no machine has that much memory.
			if order > maxOrder || !(n >= 0 && n < 1<<53) {
				continue
			}
			name = strconv.AppendInt(append(append(name[:0], z.Zone...), "::order"...), int64(order), 10)
			name = append(append(name, "::node"...), z.Node...)
			if b := d.instances.add(name); b != nil {
				*b = buddy{node: int(node), zone: z.Zone, order: order, blocks: uint64(n)}
			}
		}
	}
	return err
}

// maxOrder is far above the orders of any kernel (CONFIG_ARCH_FORCE_MAX_ORDER).
const maxOrder = 31

func (d *buddies) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomBuddy,
		Insts:  d.instances,
		Source: &pmda.Source{Read: d.read},
		Labels: pmda.Labels{"device_type": []string{"memory", "numa_node"}, "indom_name": "per buddy per numa_node"},
		// C differs: numa_node is 0 for all nodes.
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			b := d.instances.get(i.Name)
			return pmda.Labels{"numa_node": b.node, "zone": b.zone, "order": b.order}, nil
		},
	}
	pages := pmda.FromData(func(v *pmda.Value, b *buddy) { v.SetUint(b.blocks) })
	total := pmda.FromData(func(v *pmda.Value, b *buddy) { v.SetUint(metrics.Scale(b.blocks, uint64(d.h.PageSize)<<b.order, 1024)) })
	return table(pmda.Metric{InDom: indom}, []row{
		{67, 0, "mem.buddyinfo.pages", u64, instant, none, pages},
		{67, 1, "mem.buddyinfo.total", u64, instant, kbyte, total},
	})
}
