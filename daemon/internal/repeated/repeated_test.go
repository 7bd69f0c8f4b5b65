package repeated

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/pdu"
)

// repeatable returns a RESULT PDU with sets of all kinds.
func repeatable(t testing.TB) []byte {
	t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	w.SetTime(3, 4)
	w.Begin(1)
	w.Word(pdu.NoInst, 7)
	w.Fail(2, pdu.ErrnoPMID)
	w.Begin(3)
	for i := range int32(3) {
		w.String(i, string(bytes.Repeat([]byte{'a' + byte(i)}, 3*int(i))))
	}
	w.Fail(4, 0)
	w.Begin(5)
	w.Uint64(pdu.NoInst, pdu.MetricU64, 1<<40)
	w.Begin(6)
	for i := range int32(4) {
		w.Word(i, uint32(i))
	}
	w.Begin(7)
	for i := range int32(40) {
		w.Uint64(i, pdu.MetricU64, uint64(i))
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const kinds = 7 // sets of repeatable

// highRes returns b as a HIGHRES_RESULT.
func highRes(b []byte) []byte {
	high := append(make([]byte, relay.SpareHighRes), b...)
	relay.ToHighRes(high)
	return high
}

// repeated returns the PDU with sets of b in an order, as package pdu encodes it.
func repeated(t testing.TB, b []byte, order []int32) []byte {
	t.Helper()
	_, m, err := pdu.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	pick := func(all []pdu.ValueSet) (some []pdu.ValueSet) {
		for _, i := range order {
			some = append(some, all[i])
		}
		return some
	}
	switch r := m.(type) {
	case *pdu.Result:
		r.Sets = pick(r.Sets)
	case *pdu.HighResResult:
		r.Sets = pick(r.Sets)
	}
	b, err = pdu.Append(nil, 0, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A piecer takes a Reply in pieces of n bytes at most, of which it advances by some.
type piecer struct {
	n    int
	some func(n int) int
}

func (p piecer) all(r *Reply) (all []byte) {
	buf := make([]byte, p.n)
	for {
		b := r.Peek(buf)
		if len(b) == 0 {
			return all
		}
		n := p.some(len(b))
		all = append(all, b[:n]...)
		r.Advance(n)
	}
}

// A reply in pieces of any size, which are written whole or in part, has the bytes that an encoder
// makes. What precedes it is written first.
func TestReply(t *testing.T) {
	whole := func(n int) int { return n }
	part := func(n int) int { return rand.IntN(n + 1) }
	before := []byte("before it...")
	result := repeatable(t)
	var r Reply // is used again and again
	for _, b := range [][]byte{result, highRes(result)} {
		for round := range 300 {
			order := make([]int32, round%40)
			for i := range order {
				order[i] = rand.Int32N(kinds)
			}
			want := append(before[:len(before):len(before)], repeated(t, b, order)...)
			for _, p := range []piecer{{1 << 20, whole}, {64, whole}, {64, part}, {64 + rand.IntN(1000), part}} {
				max := []int{0, len(want) - len(before)}[round%2]
				if err := r.Reset(b, order, max); err != nil {
					t.Fatal(err)
				}
				r.Prepend(before)
				if got := p.all(&r); !bytes.Equal(got, want) || r.Len() != len(want) {
					t.Fatalf("order %v, pieces of %d: %d bytes\n%x, want\n%x", order, p.n, r.Len(), got, want)
				}
			}
			err := r.Reset(b, order, len(want)-len(before)-1)
			if len(order) > 0 && !errors.Is(err, pdu.ErrTooLong) {
				t.Errorf("beyond the limit: %v", err)
			}
		}
	}
}

// A Reply has the memory of its value sets and of the order, however long it is.
func TestHeld(t *testing.T) {
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	w.Begin(1)
	w.Block(pdu.NoInst, pdu.MetricAggregate, make([]byte, 1<<20))
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var r Reply
	order := make([]int32, 60)
	if err := r.Reset(b, order, 0); err != nil || r.Len() < 60<<20 {
		t.Fatalf("%d bytes, %v", r.Len(), err)
	}
	if n := r.Held(); n < len(b) || n > len(b)+64<<10 {
		t.Errorf("%d bytes are held, for value sets of %d", n, len(b))
	}
	for _, max := range []int{64 << 20, 0} {
		if err := r.Reset(b, make([]int32, 16000), max); !errors.Is(err, pdu.ErrTooLong) {
			t.Errorf("16000 times: %v", err)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(repeatable(f), []byte{0, 1, 2, 3, 4, 5, 2, 2}, uint16(64))
	f.Fuzz(func(t *testing.T, b, indices []byte, size uint16) {
		_, m, err := pdu.Parse(b)
		r, ok := m.(*pdu.Result)
		if err != nil || !ok || len(r.Sets) == 0 {
			return
		}
		var ids, want []pdu.PMID
		for _, s := range r.Sets {
			ids = append(ids, s.PMID)
		}
		if relay.CheckResult(b, ids) != nil {
			return
		}
		var order []int32
		for _, p := range indices {
			i := int32(p) % int32(len(ids))
			order, want = append(order, i), append(want, ids[i])
		}
		var reply Reply
		if reply.Reset(b, order, 1<<20) != nil {
			return
		}
		got := piecer{max(64, int(size)), func(n int) int { return max(1, n*3/4) }}.all(&reply)
		if err := relay.CheckResult(got, want); err != nil || len(got) != reply.Len() {
			t.Errorf("%x: %v", got, err)
		}
	})
}

// 1000 repetitions of a 64-bit value, as in a request of 4 KiB.
func BenchmarkReply(b *testing.B) {
	for _, kind := range []int32{4, 6} {
		wire := repeatable(b)
		order := make([]int32, 1000)
		for i := range order {
			order[i] = kind
		}
		b.Run([]string{4: "one value", 6: "40 values"}[kind], func(b *testing.B) {
			var r Reply
			buf := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(wire, order, 0)
				for piece := r.Peek(buf); len(piece) > 0; piece = r.Peek(buf) {
					r.Advance(len(piece))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(order)), "ns/repetition")
		})
	}
}
