package clients

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A List finds the same clients as a search of all of them, in the order of their
// sequence numbers, also after these have wrapped.
func TestList(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := List{seq: []uint32{0, 0x7fffffff - 20}[seed%2]}
		var model []*Client
		for range 200 {
			if len(model) == 0 || random.IntN(3) > 0 {
				s := new(Client)
				r.Add(s)
				model = append(model, s)
			} else {
				i := random.IntN(len(model))
				r.Remove(model[i])
				model = slices.Delete(model, i, i+1)
			}
		}
		slices.SortFunc(model, func(a, b *Client) int { return int(a.Seq) - int(b.Seq) })
		if got := r.All(); !slices.Equal(got, model) {
			t.Fatalf("seed %d: clients %v, want %v", seed, seqs(got), seqs(model))
		}
	}
}

// A list that All has returned stays as it is when clients come and go: others read it meanwhile.
func TestAllDoesNotChange(t *testing.T) {
	var l List
	list := []*Client{new(Client), new(Client), new(Client)}
	for _, c := range list {
		l.Add(c)
	}
	all := l.All()
	l.Remove(list[0])
	l.Add(new(Client))
	if !slices.Equal(all, list) {
		t.Errorf("a list of the clients 0, 1 and 2 has become %v", all)
	}
}

// Connections begin and end on several goroutines. Each method has one here, so the race
// detector sees one that does not lock.
func TestListConcurrently(t *testing.T) {
	var l List
	c := new(Client)
	l.Add(c)
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() { l.Add(new(Client)) }, func() { l.Remove(c) }, func() { l.Client(0) }, func() { l.Len() },
		func() { l.All() }, func() { l.Notify(pdu.StateNamesChange) },
		func() { c.Container.Set("a") }, func() { c.Container.Name() },
	} {
		wg.Go(f)
	}
	wg.Wait()
	if n := l.Len(); n != 1 || len(l.All()) != n {
		t.Errorf("%d clients, all are %v", n, seqs(l.All()))
	}
}

func seqs(list []*Client) (seqs []uint32) {
	for _, s := range list {
		seqs = append(seqs, s.Seq)
	}
	return seqs
}

func BenchmarkList(b *testing.B) {
	var r List
	for range 10000 {
		r.Add(new(Client))
	}
	b.Run("some", func(b *testing.B) {
		none := pdu.InDomProfile{Exclude: true, Insts: []int32{-1}}
		for b.Loop() {
			r.Some(b.Context(), none, nil)
		}
	})
	b.Run("add", func(b *testing.B) {
		for b.Loop() {
			r.Remove(r.byNum[5000])
			r.Add(new(Client))
		}
	})
}

// Some ends with its context, also if the profile leaves out all clients.
func TestSomeEndsWithContext(t *testing.T) {
	const n = 1000
	s := new(List)
	var p pdu.InDomProfile
	for i := range int32(n) {
		s.Add(new(Client))
		p.Insts = append(p.Insts, i)
	}
	calls := 0
	none := func(i Info) { t.Errorf("client %d", i.Seq) }
	if err := s.Some(testutil.OnErr(t.Context(), func() { calls++ }), p, none); err != nil || calls != n/64 {
		t.Errorf("%v after %d looks at the context, want %d", err, calls, n/64)
	}
	calls = 0
	ctx, cancel := context.WithCancel(t.Context())
	ctx = testutil.OnErr(ctx, func() { calls++; cancel() })
	if err := s.Some(ctx, p, none); err != context.Canceled || calls != 1 {
		t.Errorf("%v after %d looks at the context, want %v after one", err, calls, context.Canceled)
	}
}
