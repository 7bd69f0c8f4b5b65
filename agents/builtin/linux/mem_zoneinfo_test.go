package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestZones(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/zoneinfo": "Node 0, zone      DMA\n" +
		"  per-node stats\n      nr_inactive_anon 10\n      workingset_activate_anon 2\n      node_scanned 3\n" +
		"  pages free     3840\n        min      23\n        high     x\n        present  3998\n        protection: (0, 3019, x, 7)\n" +
		"      nr_free_pages 3839\n      nr_dirty 18446744073709551615\n      numa_hit 18446744073709551615\n  pagesets\n    cpu: 0\n              count: 5\n              high:  6\n" +
		"Node 0, zone   Normal\n  pages free     1\n        present  2\n        protection: (0)\n" +
		"Node 1, zone   Normal\n  per-node stats\n      nr_inactive_anon 20\n  pages free     4\n        present  5\n" +
		"Node 1, zone  Movable\n  pages free     0\n        present  0\n        protection: (0, 0)\n" +
		"Node x, zone Bad\n  pages free 8\n        present 9\nNode 2\n  min 5\n"})
	r := newHarness(t, Options{Root: root, PageSize: 8192})
	for range 2 {
		r.Want(map[string]string{
			"mem.zoneinfo.free":                   "DMA::node0=30720 Normal::node0=8 Normal::node1=32",
			"mem.zoneinfo.min":                    "DMA::node0=184",
			"mem.zoneinfo.high":                   "",
			"mem.zoneinfo.present":                "DMA::node0=31984 Normal::node0=16 Normal::node1=40",
			"mem.zoneinfo.nr_inactive_anon":       "node0=80 node1=160",
			"mem.zoneinfo.workingset_active_anon": "node0=16",
			"mem.zoneinfo.scanned":                "node0=24",
			"mem.zoneinfo.nr_free_pages":          "DMA::node0=30712",
			"mem.zoneinfo.nr_dirty":               "",
			"mem.zoneinfo.numa_hit":               "DMA::node0=18446744073709551615",
			"mem.zoneinfo.protection": "DMA::node0::lowmem_reserved0=0 DMA::node0::lowmem_reserved1=24152 DMA::node0::lowmem_reserved3=56 " +
				"Normal::node0::lowmem_reserved0=0 Movable::node1::lowmem_reserved0=0 Movable::node1::lowmem_reserved1=0",
		})
	}
	if got := instText(r.Instances(indomZone)); got != "0=node0 1=DMA::node0 2=Normal::node0 3=node1 4=Normal::node1" {
		t.Errorf("instances are %s", got)
	}
	// Memory was plugged in. The zone had an id before.
	pmdatest.WriteFile(t, root, "proc/zoneinfo", "Node 1, zone  Movable\n  pages free     6\n        present  7\n")
	if got := instText(r.Instances(indomZone)); got != "5=Movable::node1" {
		t.Errorf("instances are %s", got)
	}
}
