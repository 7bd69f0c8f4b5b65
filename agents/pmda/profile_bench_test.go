package pmda_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// numbered returns n instances.
func numbered(n int) (list pmda.List) {
	for i := range int32(n) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint("inst", i)})
	}
	return list
}

// only returns a profile that has k instances of 0 to n-1, in no order.
func only(indom pdu.InDom, k, n int) *pdu.Profile {
	var insts []int32
	for i := range k {
		insts = append(insts, int32(i*(n/k)))
	}
	slices.Reverse(insts)
	b, err := pdu.Append(nil, 0, &pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: insts}}})
	if err != nil {
		panic(err)
	}
	p := new(pdu.Profile)
	if _, err := pdu.ParseInto(b, p); err != nil {
		panic(err)
	}
	return p
}

// A fetch of a few of 10,000 instances.
func BenchmarkFetchProfile(b *testing.B) {
	const n = 10000
	static := numbered(n)
	stored := cache.New(pdu.NewInDom(domain, 0), cache.Options{Dir: b.TempDir()})
	for _, i := range static {
		if _, err := stored.Add(i.Name, nil); err != nil {
			b.Fatal(err)
		}
	}
	shuffled := slices.Clone(static)
	slices.Reverse(shuffled)
	for _, bm := range []struct {
		name  string
		insts pmda.Instances
	}{{"cache", stored}, {"list", static}, {"unsorted", &shuffled}} {
		for _, metrics := range []int{1, 5} {
			c := pmda.Config{Domain: domain}
			dom := &pmda.InDom{Insts: bm.insts}
			var ids []pdu.PMID
			for i := range metrics {
				m := row(i, sets(1))
				m.InDom = dom
				c.Metrics = append(c.Metrics, m)
				ids = append(ids, id(0, i))
			}
			a, err := pmda.New(c)
			if err != nil {
				b.Fatal(err)
			}
			for _, k := range []int{1, 100, n} {
				b.Run(fmt.Sprintf("%s/metrics=%d/insts=%d", bm.name, metrics, k), func(b *testing.B) {
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					req := agents.FetchRequest{PMIDs: ids, Profile: only(pdu.NewInDom(domain, 0), k, n)}
					var w pdu.ResultWriter
					var buf []byte
					b.ReportAllocs()
					for b.Loop() {
						w.Reset(buf[:0], 0)
						if err := a.Fetch(ctx, &req, &w); err != nil {
							b.Fatal(err)
						}
						buf, _ = w.Finish()
					}
				})
			}
		}
	}
}
