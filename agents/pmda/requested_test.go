package pmda_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

var _ pmda.Finder = (*cache.Cache)(nil)

// counted counts the calls of a Finder.
type counted struct {
	pmda.Finder
	eachs, finds int
}

func (c *counted) Each(yield func(int32, string, any) bool) { c.eachs++; c.Finder.Each(yield) }

func (c *counted) Find(inst int32) (string, any, bool) { c.finds++; return c.Finder.Find(inst) }

// A fetch of a few instances has the same values, in the same order, as a fetch of all
// instances, whether the instances can be found by their ids or not.
func TestFewInstances(t *testing.T) {
	stored := cache.New(pdu.NewInDom(domain, 0), cache.Options{Dir: t.TempDir()})
	for i := range 100 {
		if _, err := stored.Add(fmt.Sprint("inst", i), i); err != nil {
			t.Fatal(err)
		}
	}
	for _, hidden := range []string{"inst0", "inst7", "inst50"} {
		if err := stored.Hide(hidden); err != nil {
			t.Fatal(err)
		}
	}
	sorted := numbered(100)
	unsorted := slices.Clone(sorted)
	slices.Reverse(unsorted)
	many := numbered(2000)
	for _, tt := range []struct {
		name  string
		insts pmda.Instances
	}{
		{"a cache", stored}, {"a List", sorted}, {"a List that is not sorted", unsorted},
		{"a *List", &unsorted}, {"a long List", many}, {"an empty List", pmda.List{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := row(0, func(_ context.Context, v *pmda.Value) error {
				v.SetString(fmt.Sprint(v.Index(), v.InstName(), v.Data()))
				return nil
			})
			m.Type, m.InDom = pdu.MetricString, &pmda.InDom{Insts: tt.insts}
			a, err := pmda.New(pmda.Config{Domain: domain, Metrics: []pmda.Metric{m}})
			if err != nil {
				t.Fatal(err)
			}
			all := fetchProfile(t, a, new(pdu.Profile), id(0, 0))[0].Values
			var ids []int32
			for _, i := range many {
				ids = append(ids, i.ID)
			}
			slices.Reverse(ids)
			for _, insts := range [][]int32{
				{3}, {0, 1, 2}, {99, 7, 3, 99, 3, 50, 1000, -5, 4}, {5000}, ids[1900:], ids, nil,
			} {
				for _, exclude := range []bool{true, false} {
					p := &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(domain, 0), Exclude: exclude, Insts: insts}}}
					var want []pdu.Value
					for _, v := range all {
						if p.Includes(pdu.NewInDom(domain, 0), v.Inst) {
							want = append(want, v)
						}
					}
					got := fetchProfile(t, a, p, id(0, 0))[0].Values
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%d instances, exclude %v: %v, want %v", len(insts), exclude, got, want)
					}
				}
			}
		})
	}
}

// The instances of a request are searched for once, and again after a Source was read,
// which may have changed them. Each is called only if a function needs the position.
func TestFind(t *testing.T) {
	list := numbered(10)
	found := &counted{Finder: finder{&list}}
	dom := &pmda.InDom{Insts: found}
	cut := &pmda.Source{Read: func(context.Context, *pmda.Request) error { list = list[:5]; return nil }}
	var metrics []pmda.Metric
	for i := range 4 {
		m := row(i, sets(uint64(i)))
		m.InDom = dom
		metrics = append(metrics, m)
	}
	metrics[2].Source = cut
	metrics[3].Fetch = func(_ context.Context, v *pmda.Value) error { v.SetInt(int64(v.Index())); return nil }
	a, err := pmda.New(pmda.Config{Domain: domain, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	p := &pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(domain, 0), Exclude: true, Insts: []int32{8, 2}}}}
	for _, tt := range []struct {
		items        []int
		want         string
		finds, eachs int
	}{
		{[]int{0}, "2=0 8=0", 2, 0},
		{[]int{0, 1, 0}, "2=0 8=0,2=1 8=1,2=0 8=0", 2, 0},
		{[]int{3, 3}, "2=2 8=8,2=2 8=8", 2, 1},
		{[]int{1, 2, 1}, "2=1 8=1,2=2,2=1", 4, 0},
	} {
		list = numbered(10)
		found.finds, found.eachs = 0, 0
		var ids []pdu.PMID
		for _, item := range tt.items {
			ids = append(ids, id(0, item))
		}
		var got []string
		for _, s := range fetchProfile(t, a, p, ids...) {
			got = append(got, show(s))
		}
		if strings.Join(got, ",") != tt.want || found.finds != tt.finds || found.eachs != tt.eachs {
			t.Errorf("metrics %v: %q with %d calls of Find and %d of Each, want %q with %d and %d",
				tt.items, got, found.finds, found.eachs, tt.want, tt.finds, tt.eachs)
		}
	}
}

// finder makes a *List whose ids are 0, 1, 2 ... a Finder.
type finder struct{ *pmda.List }

func (f finder) Find(inst int32) (string, any, bool) {
	if inst < 0 || int(inst) >= len(*f.List) {
		return "", nil, false
	}
	return (*f.List)[inst].Name, nil, true
}

// fetchProfile fetches metrics with a profile.
func fetchProfile(t *testing.T, a agents.Agent, p *pdu.Profile, ids ...pdu.PMID) []pdu.ValueSet {
	t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	if err := a.Fetch(t.Context(), &agents.FetchRequest{PMIDs: ids, Profile: p}, &w); err != nil {
		t.Fatal(err)
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := new(pdu.Result)
	if _, err := pdu.ParseInto(b, r); err != nil {
		t.Fatal(err)
	}
	return r.Sets
}

// numbered returns n instances.
func numbered(n int) (list pmda.List) {
	for i := range int32(n) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint("inst", i)})
	}
	return list
}
