package pmda_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A value that is too long is the trouble of its metric alone.
func TestLongValues(t *testing.T) {
	const most = 1<<24 - 1 - 4 // bytes of a block
	long := strings.Repeat("x", most+1)
	var metrics []pmda.Metric
	for i, set := range []func(v *pmda.Value){
		func(v *pmda.Value) { v.SetString(long[:most]) }, // and a NUL
		func(v *pmda.Value) { v.SetBytes([]byte(long[:most])) },
		func(v *pmda.Value) { v.SetBytes([]byte(long)) },
		func(v *pmda.Value) { v.SetEvents(slices.Repeat([]pdu.EventRecord{{}}, 1<<20)) },
		func(v *pmda.Value) { v.SetBytes([]byte("short")) },
		func(v *pmda.Value) { v.SetString(long[:1000]) },
	} {
		m := row(i, func(_ context.Context, v *pmda.Value) error { set(v); return nil })
		m.Type = []pdu.MetricType{pdu.MetricString, pdu.MetricString, pdu.MetricAggregate, pdu.MetricEvent,
			pdu.MetricAggregate, pdu.MetricString}[i]
		metrics = append(metrics, m)
	}
	cd, _ := start(t, pmda.Config{Metrics: metrics})
	r := fetch(t, cd, id(0, 0), id(0, 1), id(0, 2), id(0, 3), id(0, 4), id(0, 5))
	for i, s := range r.Sets {
		if tooBig := i < 4; tooBig != (s.Err == pdu.ErrnoTooBig) || tooBig == (len(s.Values) == 1) {
			t.Errorf("metric %d: %d values, %v", i, len(s.Values), s.Err)
		}
	}
}

// A client that asks for more than an answer may have is told so as soon as that
// is known: the functions of the metric are not called for all the rest.
func TestLargeAnswer(t *testing.T) {
	const n = 1000
	var list pmda.List
	for i := range int32(n) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint(i)})
	}
	calls := 0
	m := row(0, func(_ context.Context, v *pmda.Value) error { calls++; v.SetUint(1); return nil })
	m.Type, m.InDom = pdu.MetricU64, &pmda.InDom{Insts: list}
	cd, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
	ids := slices.Repeat([]pdu.PMID{id(0, 0)}, 16000)
	err := agenttest.Do(cd, agents.Origin{}, &pdu.Fetch{PMIDs: ids}, new(pdu.Result))
	if err != error(pdu.ErrnoTooBig) {
		t.Errorf("got %v, want %v", err, pdu.ErrnoTooBig)
	}
	// 20 bytes a value, and the one that was too much.
	if most := 16<<20/20 + 1; calls > most {
		t.Errorf("%d calls, want %d at most", calls, most)
	}
	fetch(t, cd, id(0, 0))
}
