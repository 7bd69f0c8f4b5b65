package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

func TestBuddies(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{})
	r := newHarness(t, Options{Root: root, PageSize: 8192})
	for _, tt := range []struct{ text, pages, total string }{
		{"Node 0, zone      DMA      5      7 \nNode 1, zone   Normal  3  1\n",
			"DMA::order0::node0=5 DMA::order1::node0=7 Normal::order0::node1=3 Normal::order1::node1=1",
			"DMA::order0::node0=40 DMA::order1::node0=112 Normal::order0::node1=24 Normal::order1::node1=16"},
		{"Node 1, zone   Normal  4\nNode x, zone   Normal  4\n", "Normal::order0::node1=4", "Normal::order0::node1=32"},
		{"Node 0, zone DMA nan\nNode 0, zone Normal -1\nNode 0, zone High 1e300\n", "", ""},
		{"Node 0, zone DMA 1\nNode 0, zone Normal x\n", pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error()},
		{"Node 0\n", pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error()},
		{"", "", ""},
	} {
		pmdatest.WriteFile(t, root, "proc/buddyinfo", tt.text)
		r.Want(map[string]string{"mem.buddyinfo.pages": tt.pages, "mem.buddyinfo.total": tt.total})
	}
}
