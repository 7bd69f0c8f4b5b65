package metrics_test

import (
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

type row metrics.Row

// A metric has the fields of its row, and the other fields of common.
func TestTable(t *testing.T) {
	indom, source := new(pmda.InDom), new(pmda.Source)
	list := metrics.Table(pmda.Metric{Name: "common", InDom: indom, Source: source}, []row{
		{1, 2, "a.b", pdu.MetricU64, pdu.SemCounter, pdu.Kbyte, pmda.FromUint(func() (uint64, bool) { return 0, false })},
		{3, 4, "a.c", pdu.MetricString, pdu.SemDiscrete, 0, nil},
	})
	if len(list) != 2 {
		t.Fatalf("%d metrics", len(list))
	}
	m := list[0]
	if m.Cluster != 1 || m.Item != 2 || m.Name != "a.b" || m.Type != pdu.MetricU64 || m.Sem != pdu.SemCounter || m.Units != pdu.Kbyte || m.Fetch == nil {
		t.Errorf("got %+v", m)
	}
	for _, m := range list {
		if m.InDom != indom || m.Source != source {
			t.Errorf("%s does not have the fields of common", m.Name)
		}
	}
}
