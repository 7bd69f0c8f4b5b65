package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A registry finds the same sessions as a search of all of them, in the order of their
// sequence numbers, also after these have wrapped.
func TestRegistry(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := registry{seq: []uint32{0, 0x7fffffff - 20}[seed%2]}
		var model []*session
		for range 200 {
			if len(model) == 0 || random.IntN(3) > 0 {
				s := new(session)
				r.add(s)
				model = append(model, s)
			} else {
				i := random.IntN(len(model))
				r.remove(model[i])
				model = slices.Delete(model, i, i+1)
			}
		}
		slices.SortFunc(model, func(a, b *session) int { return int(a.id.seq) - int(b.id.seq) })
		if got := r.all(); !slices.Equal(got, model) {
			t.Fatalf("seed %d: sessions %v, want %v", seed, seqs(got), seqs(model))
		}
		for n := range 2 * maxLookups {
			p := pdu.InDomProfile{Exclude: n%2 == 0}
			for range n {
				p.Insts = append(p.Insts, int32(model[random.IntN(len(model))].id.seq)+random.Int32N(2))
			}
			var want []*session
			for _, s := range model {
				if p.Includes(int32(s.id.seq)) {
					want = append(want, s)
				}
			}
			got := r.some(p)
			if !p.Exclude || n > maxLookups { // then it has others, too
				got = slices.DeleteFunc(slices.Clone(got), func(s *session) bool { return !p.Includes(int32(s.id.seq)) })
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, profile %v: sessions %v, want %v", seed, p, seqs(got), seqs(want))
			}
		}
	}
}

func seqs(list []*session) (seqs []uint32) {
	for _, s := range list {
		seqs = append(seqs, s.id.seq)
	}
	return seqs
}

func BenchmarkRegistry(b *testing.B) {
	var r registry
	for range 10000 {
		r.add(new(session))
	}
	for _, k := range []int{1, 50, 10000} {
		p := pdu.InDomProfile{Exclude: true}
		for i := range k {
			p.Insts = append(p.Insts, int32(i))
		}
		if k == 10000 {
			p = pdu.InDomProfile{}
		}
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			for b.Loop() {
				r.some(p)
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		for b.Loop() {
			r.remove(r.byNum[5000])
			r.add(new(session))
		}
	})
}

// SomeClients ends with its context, also if the profile leaves out all clients.
func TestSomeClientsEndsWithContext(t *testing.T) {
	const n = 1000
	s := new(Server)
	var p pdu.InDomProfile
	for i := range int32(n) {
		s.clients.add(new(session))
		p.Insts = append(p.Insts, i)
	}
	calls := 0
	none := func(i Info) { t.Errorf("client %d", i.Seq) }
	if err := s.SomeClients(testutil.OnErr(t.Context(), func() { calls++ }), p, none); err != nil || calls != n/64 {
		t.Errorf("%v after %d checkpoints, want %d", err, calls, n/64)
	}
	calls = 0
	ctx, cancel := context.WithCancel(t.Context())
	ctx = testutil.OnErr(ctx, func() { calls++; cancel() })
	if err := s.SomeClients(ctx, p, none); err != context.Canceled || calls != 1 {
		t.Errorf("%v after %d checkpoints, want %v after one", err, calls, context.Canceled)
	}
}
