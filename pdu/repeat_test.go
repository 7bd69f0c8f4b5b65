package pdu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// repeatable returns a Result PDU with sets of all kinds.
func repeatable(t testing.TB) []byte {
	t.Helper()
	var w ResultWriter
	w.Reset(nil, 0)
	w.Begin(1)
	w.Word(NoInst, 7)
	w.Fail(2, ErrnoPMID)
	w.Begin(3)
	for i := range int32(3) {
		w.String(i, string(bytes.Repeat([]byte{'a' + byte(i)}, 3*int(i))))
	}
	w.Fail(4, 0)
	w.Begin(5)
	w.Uint64(NoInst, MetricU64, 1<<40)
	w.Begin(6)
	for i := range int32(4) {
		w.Word(i, uint32(i))
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each set is a copy, whatever the order, and the PDU is as valid as the first one.
func TestAppendRepeated(t *testing.T) {
	const n = 6
	result := repeatable(t)
	high := append(make([]byte, SpareHighRes), result...)
	ToHighRes(high)
	for _, b := range [][]byte{result, high} {
		_, m, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		sets := setsOf(m)
		for round := range 200 {
			order := make([]int32, round%40)
			var want []ValueSet
			for i := range order {
				order[i] = rand.Int32N(n)
				want = append(want, sets[order[i]])
			}
			got, err := AppendRepeated([]byte("before"), b, order, 0)
			if err != nil || string(got[:6]) != "before" {
				t.Fatalf("%v: %v", order, err)
			}
			_, m, err := Parse(got[6:])
			if err != nil {
				t.Fatalf("%v: %v", order, err)
			}
			if got := setsOf(m); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: got %+v, want %+v", order, got, want)
			}
			total := len(got) - 6
			if _, err := AppendRepeated(nil, b, order, total); err != nil {
				t.Errorf("as long as the limit: %v", err)
			}
			if _, err := AppendRepeated(nil, b, order, total-1); len(order) > 0 && !errors.Is(err, ErrTooLong) {
				t.Errorf("beyond the limit: %v", err)
			}
		}
	}
}

func setsOf(m Message) []ValueSet {
	if m, ok := m.(*HighResResult); ok {
		return m.Sets
	}
	return m.(*Result).Sets
}

// What is too long costs nothing but a look at each element of order.
func TestAppendRepeatedTooLong(t *testing.T) {
	var w ResultWriter
	w.Reset(nil, 0)
	w.Begin(1)
	w.Block(NoInst, MetricAggregate, make([]byte, 1<<20))
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	order := make([]int32, 16000)
	for _, max := range []int{64 << 20, 0} {
		if n := testing.AllocsPerRun(10, func() {
			if _, err := AppendRepeated(nil, b, order, max); !errors.Is(err, ErrTooLong) {
				t.Fatal(err)
			}
		}); n > 3 {
			t.Errorf("%v allocations", n)
		}
	}
}

func FuzzAppendRepeated(f *testing.F) {
	f.Add(repeatable(f), []byte{0, 1, 2, 3, 4, 5, 2, 2})
	f.Fuzz(func(t *testing.T, b, indices []byte) {
		_, m, err := Parse(b)
		r, ok := m.(*Result)
		if err != nil || !ok || len(r.Sets) == 0 || CheckResult(b, pmids(r.Sets)) != nil {
			return
		}
		var order []int32
		var want []PMID
		for _, p := range indices {
			i := int32(p) % int32(len(r.Sets))
			order, want = append(order, i), append(want, r.Sets[i].PMID)
		}
		got, err := AppendRepeated(nil, b, order, 1<<20)
		if err != nil {
			return
		}
		if err := CheckResult(got, want); err != nil {
			t.Errorf("%x: %v", got, err)
		}
	})
}

// 1000 repetitions of a 64-bit value, as in a request of 4 KiB.
func BenchmarkAppendRepeated(b *testing.B) {
	wire := repeatable(b)
	order := make([]int32, 1000)
	for i := range order {
		order[i] = 4
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = AppendRepeated(dst[:0], wire, order, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(order)), "ns/repetition")
}
