package peertest

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/kvm"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// Names, descriptors, labels and values are those of pmdakvm, for counters that
// are composed. The trace points are some that every kernel has and passes.
func TestKVM(t *testing.T) {
	files := map[string]string{"debug/kvm/vm/exits": "1\n", "lockdown": "[none] integrity confidentiality\n"}
	tree, err := pmnsload.Load("../../../../etc/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	for e := range tree.All("kvm") {
		// Kernels do not have all of them.
		if name := strings.TrimPrefix(e.Name, "kvm."); e.PMID.Cluster() == 0 && e.PMID.Item()%5 != 4 {
			files["debug/kvm/"+name] = fmt.Sprintf("%d\n", uint64(e.PMID.Item())<<58+7)
		}
	}
	// A directory of the kernel, since pmdakvm does not see the file that a
	// directory has first.
	const events = "/sys/kernel/tracing/events/sched"
	files["trace/events/kvm"] = "-> " + events
	conf := "[trace]\nsched_switch\nsched_wakeup\n"
	_, err = os.Stat(events)
	counts := err == nil
	root := pmdatest.Tree(t, files)
	pmdatest.WriteFile(t, root, "kvm/kvm.conf", fmt.Sprintf("[paths]\ndebugfs=%s/debug\ntracefs=%s/trace\nlockdown=%s/lockdown\n%s", root, root, root, conf))
	t.Setenv("PCP_PMDAS_DIR", root)
	c := startPMDA(t, "kvm", 95)
	a, err := kvm.New(95)
	if err != nil {
		t.Fatal(err)
	}
	ours := transport.Inline(a)
	t.Cleanup(func() { ours.Close() })

	names := func(tr transport.Transport) []string {
		return ask[pdu.PMNSNames](t, tr, &pdu.PMNSTraverse{Name: "kvm.trace"}).Names
	}
	traced := map[string]bool{}
	for _, name := range names(c) {
		traced[name] = true
	}
	for _, name := range names(ours) {
		req := &pdu.PMNSNames{Names: []string{name}}
		id := ask[pdu.PMNSIDs](t, ours, req).PMIDs[0]
		same(t, name, ask[pdu.PMNSIDs](t, c, req).PMIDs[0], id)
		same(t, name, ask[pdu.Desc](t, c, &pdu.DescReq{PMID: id}), ask[pdu.Desc](t, ours, &pdu.DescReq{PMID: id}))
		if !traced[name] {
			t.Errorf("pmdakvm has no %s", name)
		}
		delete(traced, name)
		set := func(tr transport.Transport) pdu.ValueSet {
			return ask[pdu.Result](t, tr, &pdu.Fetch{PMIDs: []pdu.PMID{id}}).Sets[0]
		}
		if name == "kvm.trace.count" {
			same(t, name, fmt.Sprint(set(c)), fmt.Sprint(set(ours)))
			continue
		}
		// Each began to count when it was asked first. They count the same events.
		c0, o0 := set(c), set(ours)
		c1, o1 := set(c), set(ours)
		if len(c0.Values) != len(o0.Values) || len(c1.Values) != len(o1.Values) {
			t.Fatalf("%s\npmdakvm has %v\nours        %v", name, c0.Values, o0.Values)
		}
		if counts != (len(o0.Values) > 0) {
			t.Errorf("%s has %v", name, o0.Values)
		}
		for i := range o0.Values {
			if o0.Values[i].Inst != c0.Values[i].Inst || grown(o0.Values[i], o1.Values[i]) < 0 {
				t.Errorf("%s\npmdakvm has %v, %v\nours        %v, %v", name, c0.Values[i], c1.Values[i], o0.Values[i], o1.Values[i])
			}
		}
	}
	if len(traced) > 0 {
		t.Errorf("only pmdakvm has %v", traced)
	}
	indom := pdu.NewInDom(95, 0)
	req := &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}
	same(t, "instances", fmt.Sprint(ask[pdu.Instance](t, c, req)), fmt.Sprint(ask[pdu.Instance](t, ours, req)))
	for _, kind := range []pdu.LabelKind{pdu.LabelInDom, pdu.LabelInstances} {
		theirs, got := labelsByName(t, c, kind, indom), labelsByName(t, ours, kind, indom)
		if !maps.Equal(theirs, got) {
			t.Errorf("labels\npmdakvm has %v\nours        %v", theirs, got)
		}
	}

	values := 0
	for e := range tree.All("kvm") {
		if e.PMID.Cluster() != 0 {
			continue
		}
		theirs, d := ask[pdu.Desc](t, c, &pdu.DescReq{PMID: e.PMID}), ask[pdu.Desc](t, ours, &pdu.DescReq{PMID: e.PMID})
		if e.Name == "kvm.largepages" {
			theirs.Sem = pdu.SemInstant // since PCP 7.2
		}
		same(t, e.Name, theirs, d)
		was, is := newReader(c).values(t, e.PMID), newReader(ours).values(t, e.PMID)
		if e.PMID.Item()%5 == 4 {
			same(t, e.Name, fmt.Sprint(map[string]string{"": fmt.Sprint(make([]byte, 8))}), fmt.Sprint(was))
			same(t, e.Name, 0, len(is))
			continue
		}
		if !maps.Equal(was, is) {
			t.Errorf("%s\npmdakvm has %v\nours        %v", e.Name, was, is)
		}
		values += len(is)
	}
	if values != 35 {
		t.Errorf("%d values", values)
	}
}

// grown returns by how much a number of 64 bits has grown.
func grown(before, after pdu.Value) (n int64) {
	for i := range before.Block {
		n = n<<8 + int64(after.Block[i]) - int64(before.Block[i])
	}
	return n
}
