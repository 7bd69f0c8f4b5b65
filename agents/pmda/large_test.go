package pmda_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// If a value is too long, only its metric has an error.
func TestLongValues(t *testing.T) {
	const maxBlock = 1<<24 - 1 - 4 // bytes
	long := strings.Repeat("x", maxBlock+1)
	controls := strings.Repeat("\x1b", maxBlock/4+1) // four times as long when they are escaped
	var metrics []pmda.Metric
	for i, set := range []func(v *pmda.Value){
		func(v *pmda.Value) { v.SetString(long[:maxBlock]) }, // a NUL is added
		func(v *pmda.Value) { v.SetBytes([]byte(long[:maxBlock])) },
		func(v *pmda.Value) { v.SetBytes([]byte(long)) },
		func(v *pmda.Value) { v.SetEvents(slices.Repeat([]pdu.EventRecord{{}}, 1<<20)) },
		func(v *pmda.Value) { v.SetString(controls) },
		func(v *pmda.Value) { v.SetBytes([]byte(controls)) },
		func(v *pmda.Value) { v.SetBytes([]byte("short")) },
		func(v *pmda.Value) { v.SetString(long[:1000]) },
	} {
		m := row(i, func(_ context.Context, v *pmda.Value) error { set(v); return nil })
		m.Type = []pdu.MetricType{pdu.MetricString, pdu.MetricString, pdu.MetricAggregate, pdu.MetricEvent,
			pdu.MetricString, pdu.MetricString, pdu.MetricAggregate, pdu.MetricString}[i]
		metrics = append(metrics, m)
	}
	tr, _ := start(t, pmda.Config{Metrics: metrics})
	r := fetch(t, tr, id(0, 0), id(0, 1), id(0, 2), id(0, 3), id(0, 4), id(0, 5), id(0, 6), id(0, 7))
	for i, s := range r.Sets {
		if tooBig := i < 6; tooBig != (s.Err == pdu.ErrnoTooBig) || tooBig == (len(s.Values) == 1) {
			t.Errorf("metric %d: %d values, %v", i, len(s.Values), s.Err)
		}
	}
}

// If the reply to a fetch becomes too large, the fetch ends at once: functions are
// not called for the remaining instances.
func TestLargeReply(t *testing.T) {
	const n = 1000
	var list pmda.List
	for i := range int32(n) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint(i)})
	}
	text := strings.Repeat("x", 1000)
	calls := 0
	m := row(0, func(_ context.Context, v *pmda.Value) error { calls++; v.SetString(text); return nil })
	m.Type, m.InDom = pdu.MetricString, &pmda.InDom{Insts: list}
	tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
	ids := slices.Repeat([]pdu.PMID{id(0, 0)}, 16000)
	err := transporttest.Do(tr, agents.Origin{}, &pdu.Fetch{PMIDs: ids}, new(pdu.Result))
	if err != error(pdu.ErrnoTooBig) {
		t.Errorf("got %v, want %v", err, pdu.ErrnoTooBig)
	}
	// The last call is for the value that exceeds the limit.
	if most := transport.DefaultMaxReply/len(text) + 1; calls > most {
		t.Errorf("%d calls, want %d at most", calls, most)
	}
	fetch(t, tr, id(0, 0))
}
