package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// maxIDs is how many PMIDs a fetch of 64 KiB has.
const maxIDs = (64<<10 - pdu.HeaderLen - 16) / 4

// A countingHost is a Host that counts the copies of the list of clients that it makes,
// and the clients in them.
type countingHost struct {
	pmcd.Host
	copies, copied atomic.Int64
}

func (h *countingHost) Clients(ctx context.Context, dst []pmcd.ClientInfo, p pdu.InDomProfile) ([]pmcd.ClientInfo, error) {
	all, err := h.Host.Clients(ctx, dst, p)
	h.copies.Add(1)
	h.copied.Add(int64(len(all) - len(dst)))
	return all, err
}

// Requests for pmcd.client.start_date as often as is possible, with a profile of 16,000
// instances that do not exist, by many clients: each request costs one copy of the list
// of clients, without a client in it. With a profile of all instances it is one copy of
// all clients.
func TestManyTimesStartDate(t *testing.T) {
	h := new(countingHost)
	r := newHarness(t, func(c *Config) {
		c.wrapHost = func(inner pmcd.Host) pmcd.Host {
			h.Host = inner
			return h
		}
	}, nil)
	r.awaitStarts()
	startDate, indom := pdu.NewPMID(2, 6, 1), pdu.NewInDom(2, 6)
	var absent []int32
	for i := range int32(16000) {
		absent = append(absent, 1<<20+i)
	}
	const clients = 50
	var cs []*client
	for range clients {
		c := r.dial()
		c.send(&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: absent}}})
		cs = append(cs, c)
	}
	for _, c := range cs {
		c.send(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{startDate}, maxIDs)})
	}
	for _, c := range cs {
		m, ok := c.recv().(*pdu.Result)
		if !ok || len(m.Sets) != maxIDs || len(m.Sets[maxIDs-1].Values) != 0 || m.Sets[maxIDs-1].Err != 0 {
			t.Fatal("not a reply")
		}
	}
	if n, clients := h.copies.Load(), h.copied.Load(); n != int64(len(cs)) || clients != 0 {
		t.Errorf("%d copies of the list with %d clients for %d requests", n, clients, len(cs))
	}

	c := cs[0]
	c.send(&pdu.Profile{})
	if m, ok := c.do(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{startDate}, 100)}).(*pdu.Result); !ok || len(m.Sets) != 100 || len(m.Sets[99].Values) != clients {
		t.Error("not a reply")
	}
	if n, copied := h.copies.Load(), h.copied.Load(); n != clients+1 || copied != clients {
		t.Errorf("%d copies of the list, with %d clients in the last", n, copied)
	}
}

// A countingList is a list of instances that counts how many were visited.
type countingList struct {
	pmda.List
	visits atomic.Int64
}

func (l *countingList) Each(yield func(inst int32, name string, data any) bool) {
	l.List.Each(func(inst int32, name string, data any) bool {
		l.visits.Add(1)
		return yield(inst, name, data)
	})
}

// A metric with many instances, as kernel.percpu.interrupts on a host of 128 CPUs, as
// often as is possible: its values are computed once for a request, and for a profile
// without instances not at all.
func TestManyTimesPercpu(t *testing.T) {
	const insts = 128 * 64
	list := new(countingList)
	for i := range int32(insts) {
		list.List = append(list.List, pdu.Inst{ID: i, Name: fmt.Sprint(i)})
	}
	var values atomic.Int64
	value := func(_ context.Context, v *pmda.Value) error {
		values.Add(1)
		v.SetInt(int64(v.Index()))
		return nil
	}
	indom := &pmda.InDom{Insts: list}
	r := newHarness(t, func(c *Config) {
		c.Open = func(_ context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			a, err := pmda.New(pmda.Config{Domain: spec.Domain, Metrics: []pmda.Metric{
				{Item: 1, Type: pdu.MetricU32, Sem: pdu.SemCounter, Fetch: value, InDom: indom},
			}})
			if err != nil {
				return nil, err
			}
			return &transport.Conn{Transport: transport.Local(a), In: -1, Out: -1}, nil
		}
	}, nil)
	r.awaitStarts()
	c := r.dial()
	for _, tt := range []struct {
		profile pdu.InDomProfile
		times   int
		values  int64
		want    string
	}{
		{pdu.InDomProfile{}, 200, insts, ""},
		{pdu.InDomProfile{}, maxIDs, insts, "PM_ERR_TOOBIG"}, // 1.5 GB
		{pdu.InDomProfile{Exclude: true, Insts: []int32{7, 8000}}, maxIDs, 2, ""},
		{pdu.InDomProfile{Exclude: true}, maxIDs, 0, ""},
	} {
		tt.profile.InDom = pdu.NewInDom(240, 0)
		list.visits.Store(0)
		values.Store(0)
		c.send(&pdu.Profile{InDoms: []pdu.InDomProfile{tt.profile}})
		switch m := c.do(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{id(240, 1)}, tt.times)}).(type) {
		case *pdu.Result:
			if len(m.Sets) != tt.times || len(m.Sets[tt.times-1].Values) != int(tt.values) || tt.want != "" {
				t.Errorf("%d sets, the last with %d values", len(m.Sets), len(m.Sets[tt.times-1].Values))
			}
		default:
			if show(m) != tt.want {
				t.Errorf("got %s", show(m))
			}
		}
		if n, visits := values.Load(), list.visits.Load(); n != tt.values || visits > insts {
			t.Errorf("%d values computed, want %d; %d instances visited of %d", n, tt.values, visits, insts)
		}
	}
}
