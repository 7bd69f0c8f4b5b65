package mmv

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// What a file takes in memory is about what is counted for it, whatever it has: the limit
// for all files depends on that.
func TestCost(t *testing.T) {
	const metrics = mmvformat.MaxItem + 1
	deep := func(first string) *mmvtest.File {
		f := &mmvtest.File{Version: 3}
		for i := range metrics {
			f.Metrics = append(f.Metrics, mmvtest.Metric{Name: fmt.Sprintf("%s%d", first, i) + strings.Repeat(".a", 120), Item: uint32(i), Sem: 1})
		}
		return f
	}
	noPrefix := deep("m")
	noPrefix.Flags = mmvformat.FlagNoPrefix
	labels := func(payload string) *mmvtest.File {
		f := one(1)
		f.Version, f.Cluster = 3, 1
		for range mmvformat.MaxLabels {
			f.Labels = append(f.Labels, mmvtest.Label(mmvformat.LabelCluster, 1, -1, payload))
		}
		return f
	}
	small := ""
	for i := range 40 {
		small += fmt.Sprintf(`"%c":1,`, 'A'+i%26+i/26*32)
	}
	small = strings.TrimSuffix(small[:240], ",")
	nested := strings.Repeat(`{"a":`, 20) + "{" + small[:6*16-1] + "}" + strings.Repeat("}", 20)
	insts := &mmvtest.File{Version: 2, InDoms: []mmvtest.InDom{{Serial: 1}}}
	parts := &mmvtest.File{Version: 2}
	for i := range 10000 {
		in := mmvtest.Inst{ID: int32(10000 - i), Name: "n"}
		insts.InDoms[0].Insts = append(insts.InDoms[0].Insts, in)
		parts.InDoms = append(parts.InDoms, mmvtest.InDom{Serial: uint32(i + 1), Insts: []mmvtest.Inst{in}})
	}
	for name, f := range map[string]*mmvtest.File{
		"deep names": deep("m"), "deep names without prefix": noPrefix,
		"labels": labels("{" + small[:6*30-1] + "}"), "labels in objects": labels(nested),
		"instances": insts, "instance domains": parts,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f.Write(t, dir, "f")
			a := newAgent(t, Options{Dir: dir})
			a.buffer(1)
			before := testutil.LiveHeap()
			if err := a.refresh(context.Background(), false); err != nil {
				t.Fatal(err)
			}
			took := testutil.LiveHeap() - before
			if len(a.files) != 1 || len(a.files[0].labels) != len(f.Labels) {
				t.Fatal("not all of the file is accepted")
			}
			t.Logf("size %d, %d counted, %d taken", a.files[0].size, a.files[0].memory, took)
			if counted := a.files[0].memory; took > counted+counted/2+4096 {
				t.Errorf("it takes %d bytes, and %d are counted", took, counted)
			}
			runtime.KeepAlive(a)
		})
	}
}

// Files with one cluster can have more labels than a set can. Only a few are merged before the
// request fails.
func TestTooManyLabels(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		f := &mmvtest.File{Version: 3, Cluster: 1, InDoms: []mmvtest.InDom{{Serial: 1, Insts: []mmvtest.Inst{{ID: 0, Name: "i"}}}}}
		f.Metrics = []mmvtest.Metric{{Name: "m", Item: uint32(i), Sem: 1}}
		for j := range mmvformat.MaxLabels {
			flag := []uint32{mmvformat.LabelCluster, mmvformat.LabelInstances}[j%2]
			f.Labels = append(f.Labels, mmvtest.Label(flag, 1, 0, fmt.Sprintf(`{"a%d_%d":1,"b%d_%d":2}`, i, j, i, j)))
		}
		f.Write(t, dir, fmt.Sprint("f", i))
	}
	c := newClient(t, dir)
	req := &pdu.LabelReq{Kind: pdu.LabelCluster, Ident: uint32(pdu.NewPMID(70, 1, 0))}
	if reply, err := do[pdu.Labels](c, req); err == nil {
		t.Errorf("%d label sets", len(reply.Sets))
	}
	req = &pdu.LabelReq{Kind: pdu.LabelInstances, Ident: uint32(pdu.NewInDom(70, 1<<mmvformat.SerialBits|1))}
	if reply, err := do[pdu.Labels](c, req); err != nil || len(reply.Sets) != 1 || len(reply.Sets[0].Labels) != 0 {
		t.Errorf("labels of instances: %d sets, %v", len(reply.Sets), err)
	}
	if !strings.Contains(c.log.String(), "256 labels") || strings.Contains(c.log.String(), "257 labels") {
		t.Errorf("log: %s", &c.log)
	}
	merged := make(map[string]pdu.NamedLabel)
	for _, f := range c.clusters[1] {
		merge(merged, f, func(*label) bool { return true })
	}
	if len(merged) != tooMany {
		t.Errorf("%d labels are merged", len(merged))
	}
}
