package linux

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// Only clients of root get slab caches and serial lines, even if the request before
// came from a client of root.
func TestRootOnlyFiles(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/slabinfo": "slabinfo - version: 2.1\n# name            <active_objs>\n" +
			"kmalloc-64 8640 8641 64 64 1 : tunables    0    0    0 : slabdata    135    136      0\nbad 1 x 3 0 5\n",
		"proc/tty/driver/serial": "serinfo:1.0 driver revision:\n0: uart:16550A port:000003F8 irq:26 tx:218 rx:5 fe:1 pe:2 brk:3 oe:x RTS|CTS\n" +
			"1: uart:unknown port:000002F8 irq:3\nx: uart:16550A irq:1\n2: port:1\n",
	})
	const slab, tty = "mem.slabinfo.objects.active", "tty.serial.tx"
	r := newHarness(t, Options{Root: root, PageSize: 4096})
	attrs := r.Agent.(agents.AttrSetter)
	for _, tt := range []struct {
		uid, slab, tty string
	}{{"", "", ""}, {"0", "kmalloc-64=8640 bad=1", "0=218"}, {"1000", "", ""}, {"0", "kmalloc-64=8640 bad=1", "0=218"}, {"x", "", ""}} {
		if tt.uid != "" {
			attrs.SetAttr(0, pdu.Attr{Code: pdu.AttrUserID, Value: []byte(tt.uid)})
		}
		r.Want(map[string]string{slab: tt.slab, tty: tt.tty})
		if got := len(r.Instances(indomSlab)); got != len(strings.Fields(tt.slab)) {
			t.Errorf("uid %q: %d slab caches", tt.uid, got)
		}
	}
	all := newHarness(t, Options{Root: root, PageSize: 4096, Access: true})
	all.Want(map[string]string{
		slab:                                  "kmalloc-64=8640 bad=1",
		"mem.slabinfo.objects.total":          "kmalloc-64=8641",
		"mem.slabinfo.objects.size":           "kmalloc-64=64 bad=3",
		"mem.slabinfo.slabs.active":           "kmalloc-64=135",
		"mem.slabinfo.slabs.total":            "kmalloc-64=136",
		"mem.slabinfo.slabs.objects_per_slab": "kmalloc-64=64 bad=0",
		"mem.slabinfo.slabs.total_size":       "kmalloc-64=552960",
		"tty.serial.rx":                       "0=5",
		"tty.serial.frame":                    "0=1",
		"tty.serial.parity":                   "0=2",
		"tty.serial.brk":                      "0=3",
		"tty.serial.overrun":                  "",
		"tty.serial.irq":                      "0=26",
	})
	// The format of Linux 2.4, and unknown formats.
	for _, text := range []string{"slabinfo - version: 1.1\nkmem_cache 59 78 100 2 2 1\n", "x\nkmem_cache 59 78\n", ""} {
		pmdatest.WriteFile(t, root, "proc/slabinfo", text)
		all.Want(map[string]string{slab: ""})
	}
}
