package pmda_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// manyInsts returns an agent with a metric of each common type, all with n
// instances.
func manyInsts(t testing.TB, n int) (a agents.Agent, ids []pdu.PMID) {
	var list pmda.List
	for i := range n {
		list = append(list, pdu.Inst{ID: int32(i), Name: fmt.Sprintf("cpu%d", i)})
	}
	dom := &pmda.InDom{Insts: &list, Source: &pmda.Source{Read: func(context.Context, *pmda.Request) error { return nil }}}
	c := pmda.Config{Name: "many", Domain: domain}
	for i, typ := range []pdu.MetricType{pdu.MetricU32, pdu.MetricU64, pdu.MetricFloat, pdu.MetricDouble, pdu.MetricString} {
		m := row(i, func(_ context.Context, v *pmda.Value) error {
			if v.Metric().Type == pdu.MetricString {
				v.SetString(v.InstName())
			} else {
				v.SetUint(uint64(v.Index()))
			}
			return nil
		})
		m.Type, m.InDom = typ, dom
		c.Metrics = append(c.Metrics, m)
		ids = append(ids, id(0, i))
	}
	a, err := pmda.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a, ids
}

// A fetch does not allocate, regardless of the number of values.
func TestNoAllocation(t *testing.T) {
	a, ids := manyInsts(t, 100)
	req := agents.FetchRequest{PMIDs: ids, Profile: new(pdu.Profile)}
	var w pdu.ResultWriter
	var buf []byte
	got := testing.AllocsPerRun(100, func() {
		w.Reset(buf[:0], 0)
		if err := a.Fetch(t.Context(), &req, &w); err != nil {
			t.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		buf = b
	})
	if got != 0 {
		t.Errorf("%v allocations in a fetch of %d values, want none", got, 100*len(ids))
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a, ids := manyInsts(b, n)
			req := agents.FetchRequest{PMIDs: ids, Profile: new(pdu.Profile)}
			var w pdu.ResultWriter
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				w.Reset(buf[:0], 0)
				if err := a.Fetch(b.Context(), &req, &w); err != nil {
					b.Fatal(err)
				}
				buf, _ = w.Finish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*len(ids)), "ns/value")
		})
	}
}
