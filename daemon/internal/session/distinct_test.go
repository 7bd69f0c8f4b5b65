package session

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// reduce finds all repetitions, whatever the number of PMIDs.
func TestDistinct(t *testing.T) {
	var d distinct
	for round := range 3000 {
		ids := make([]pdu.PMID, rand.IntN(4*fewIDs))
		if round%100 == 0 {
			ids = make([]pdu.PMID, rand.IntN(5000))
		}
		for i := range ids {
			ids[i] = pdu.NewPMID(60, 0, rand.IntN(1+rand.IntN(1000)))
		}
		var want []pdu.PMID
		for _, id := range ids {
			if !slices.Contains(want, id) {
				want = append(want, id)
			}
		}
		got, repeated := d.reduce(slices.Clone(ids), rand.Uint32())
		if !slices.Equal(got, want) || repeated != (len(want) < len(ids)) {
			t.Fatalf("%v: got %v, %v; want %v", ids, got, repeated, want)
		}
		if !repeated {
			continue
		}
		for i, at := range d.order {
			if got[at] != ids[i] {
				t.Fatalf("%v: the order is %v", ids, d.order)
			}
		}
		if len(d.order) != len(ids) {
			t.Fatalf("%d PMIDs, %d in order", len(ids), len(d.order))
		}
	}
}

// All seeds will do, also 0.
func TestDistinctSeed(t *testing.T) {
	var d distinct
	for _, seed := range []uint32{0, 1, 1 << 31, 1<<32 - 1} {
		ids := make([]pdu.PMID, 100)
		for i := range ids {
			ids[i] = pdu.PMID(i % 99)
		}
		if got, repeated := d.reduce(ids, seed); len(got) != 99 || !repeated {
			t.Errorf("seed %d: %d different ones", seed, len(got))
		}
	}
}

func TestDistinctDoesNotAllocate(t *testing.T) {
	ids := make([]pdu.PMID, 1000)
	for i := range ids {
		ids[i] = pdu.NewPMID(60, i, i)
	}
	var d distinct
	d.reduce(ids, 1)
	if n := testing.AllocsPerRun(10, func() { d.reduce(ids, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDistinct(b *testing.B) {
	for _, bm := range []struct {
		name string
		n    int
	}{{"1", 1}, {"8", 8}, {"9", 9}, {"20", 20}, {"100", 100}, {"1500", 1500}, {"16000", 16000}} {
		b.Run(bm.name, func(b *testing.B) {
			ids := make([]pdu.PMID, bm.n)
			for i := range ids {
				ids[i] = pdu.NewPMID(60, i/40, i%40)
			}
			var d distinct
			seed := rand.Uint32()
			b.ReportAllocs()
			for b.Loop() {
				d.reduce(ids, seed)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bm.n), "ns/PMID")
		})
	}
}
