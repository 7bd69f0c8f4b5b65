package peertest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/jbd2"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// Descriptors, instances and values are those of pmdajbd2, in a tree that is
// composed.
func TestJBD2(t *testing.T) {
	const info = "12 transactions (7 requested), each up to 8192 blocks\naverage: \n  1ms waiting for transaction\n  2ms request delay\n" +
		"  3ms running transaction\n  4ms transaction was being locked\n  5ms flushing data (in ordered mode)\n  6ms logging transaction\n" +
		"  1234567us average transaction commit time\n  8 handles per transaction\n  9 blocks per transaction\n  10 logged blocks per transaction\n"
	dir := pmdatest.Tree(t, map[string]string{
		"vda1-8/info": info, "dm-3-8/info": strings.ReplaceAll(info, "12", "4294967297"),
		"old/info":    "3 transaction, each up to 2048 blocks\naverage: \n  1ms waiting for transaction\n  9 blocks per transaction\n",
		"broken/info": "3 trans\n", "short/info": "1 transactions (2 requested), each up to 3 blocks\n", "none/": "",
	})
	t.Setenv("PCP_VAR_DIR", pmdatest.Tree(t, map[string]string{"config/pmda/": ""}))
	c := startPMDA(t, "jbd2", 122, "-U", "root", "-j", dir)
	a, err := jbd2.Open(122, jbd2.Options{Dir: dir, CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ours := transport.Inline(a)
	t.Cleanup(func() { ours.Close() })
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(122, 0), Inst: pdu.NoInst}
	same(t, "instances", fmt.Sprint(ask[pdu.Instance](t, c, req)), fmt.Sprint(ask[pdu.Instance](t, ours, req)))
	tree, err := pmnsload.Load("../../../../etc/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for e := range tree.All("jbd2") {
		d := &pdu.DescReq{PMID: e.PMID}
		same(t, e.Name, ask[pdu.Desc](t, c, d), ask[pdu.Desc](t, ours, d))
		theirs, got := newReader(c).values(t, e.PMID), newReader(ours).values(t, e.PMID)
		if !maps.Equal(theirs, got) {
			t.Errorf("%s\npmdajbd2 has %v\nours         %v", e.Name, theirs, got)
		}
		values += len(got)
	}
	if values != 22*3-3+1 {
		t.Errorf("%d values", values)
	}
}
