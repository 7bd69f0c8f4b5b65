package pmdatest

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// CheckEnds checks fetches that end early, at different calls of
// Err of its context: the fetch returns the error of the context without further calls, and
// leaves nothing behind. Later fetches have the instances and values of an agent of which
// no fetch has ended early. It fetches a metric of each cluster and instance domain, and
// returns the number of calls in complete fetches. start starts an agent, whose
// values must not differ from fetch to fetch otherwise.
func CheckEnds(t *testing.T, start func() *Harness) (calls int) {
	t.Helper()
	type group struct {
		cluster int
		indom   int
	}
	h := start()
	groups := make(map[group]string) // the metric with the most values
	values := make(map[group]int)
	for _, name := range slices.Sorted(maps.Keys(h.Metrics)) {
		m := h.Metrics[name]
		g := group{m.Cluster, -1}
		if m.InDom != nil {
			g.indom = m.InDom.Serial
		}
		set, _ := h.fetchUntil(name, 0)
		if n := len(set.Values); groups[g] == "" || n > values[g] {
			groups[g], values[g] = name, n
		}
	}
	for _, name := range groups {
		want, n := h.fetchUntil(name, 0)
		calls += n
		if n == 0 {
			continue
		}
		if again, _ := h.fetchUntil(name, 0); !reflect.DeepEqual(again, want) {
			t.Errorf("%s: there are %d values (error %v), then %d (error %v), which are not the same",
				name, len(want.Values), want.Err, len(again.Values), again.Err)
			continue
		}
		for ends := 1; ends < n+3; ends += max(n/3, 1) { // the first fetch makes more calls
			ended := start()
			if _, calls := ended.fetchUntil(name, ends); calls > ends {
				t.Errorf("%s: %d looks at the context after the context had ended", name, calls-ends)
			}
			for range 2 {
				if got, _ := ended.fetchUntil(name, 0); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: after a fetch that ended at look %d at its context there are %d values (error %v); else there are %d (error %v)",
						name, ends, len(got.Values), got.Err, len(want.Values), want.Err)
				}
				ended.fetchUntil(name, ends)
			}
		}
	}
	return calls
}

// fetchUntil fetches all instances of a metric. The context ends at the given call of
// its Err; 0 is never. It returns the number of calls.
func (h *Harness) fetchUntil(name string, ends int) (set pdu.ValueSet, calls int) {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	counted := testutil.OnErr(ctx, func() {
		if calls++; calls == ends {
			cancel()
		}
	})
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	err := h.Agent.Fetch(counted, &agents.FetchRequest{PMIDs: []pdu.PMID{h.ID(name)}, Profile: new(pdu.Profile)}, &w)
	if err != ctx.Err() {
		h.Fatalf("fetch of %s: %v, want %v", name, err, ctx.Err())
	}
	if err != nil {
		return set, calls
	}
	b, err := w.Finish()
	if err != nil {
		h.Fatal(err)
	}
	r := new(pdu.Result)
	if _, err := pdu.ParseInto(b, r); err != nil {
		h.Fatal(err)
	}
	return r.Sets[0], calls
}
