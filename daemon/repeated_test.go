package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An idRecorder is an agent that records the PMIDs of each fetch.
type idRecorder struct {
	tester
	fetched [][]pdu.PMID
}

func (a *idRecorder) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.mu.Lock()
	a.fetched = append(a.fetched, slices.Clone(r.PMIDs))
	a.mu.Unlock()
	return a.tester.Fetch(ctx, r, w)
}

// take returns the PMIDs of the fetches since the last take.
func (a *idRecorder) take() [][]pdu.PMID {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.fetched
	a.fetched = nil
	return list
}

// A metric that is several times in a fetch is fetched once, and each time its values
// are in the reply, in the order of the request.
func TestRepeatedMetrics(t *testing.T) {
	t240, t241 := &idRecorder{tester: tester{domain: 240}}, &idRecorder{tester: tester{domain: 241}}
	inProcess := func(c *Config) {
		open := c.Open
		c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			if spec.Domain == 241 {
				return &transport.Conn{Transport: transport.Local(t241), In: -1, Out: -1}, nil
			}
			return open(ctx, spec, opt)
		}
	}
	r := newHarness(t, inProcess, map[int]func(wire.Conn){240: serveAgent(t240)})
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
	a, b, s, none := id(240, 1), id(240, 3), id(240, 2), id(240, 77)
	x, y := id(241, 2), id(241, 3)
	values := map[pdu.PMID]string{
		a: "240.0.1=240", b: "240.0.3=100,101,102", s: "240.0.2=s240", none: "240.0.77=PM_ERR_PMID",
		x: "241.0.2=s241", y: "241.0.3=100,101,102", id(243, 1): "243.0.1=PM_ERR_NOAGENT", numClients: "2.0.3=1",
	}
	for _, tt := range []struct{ ids, of240, of241 []pdu.PMID }{
		{[]pdu.PMID{a, a}, []pdu.PMID{a}, nil},
		{[]pdu.PMID{s, b, s, s, b, none, none, a}, []pdu.PMID{s, b, none, a}, nil},
		{[]pdu.PMID{x, x, y, x}, nil, []pdu.PMID{x, y}},
		{[]pdu.PMID{x, s, y, x, s, numClients, a, y, numClients, id(243, 1), id(243, 1), x}, []pdu.PMID{s, a}, []pdu.PMID{x, y}},
		{[]pdu.PMID{numClients, numClients, numClients}, nil, nil},
		{[]pdu.PMID{id(243, 1), id(243, 1)}, nil, nil},
		{slices.Repeat([]pdu.PMID{b, x}, 50), []pdu.PMID{b}, []pdu.PMID{x}},
		{[]pdu.PMID{b, s, a}, []pdu.PMID{b, s, a}, nil},
	} {
		var want []string
		for _, id := range tt.ids {
			want = append(want, values[id])
		}
		for _, m := range []pdu.Message{&pdu.Fetch{PMIDs: tt.ids}, &pdu.HighResFetch{PMIDs: tt.ids}} {
			if got := show(c.do(m)); got != strings.Join(want, " ") {
				t.Errorf("%v %v:\ngot  %s\nwant %s", m.Type(), tt.ids, got, strings.Join(want, " "))
			}
			for _, f := range []struct {
				got  [][]pdu.PMID
				want []pdu.PMID
			}{{t240.take(), tt.of240}, {t241.take(), tt.of241}} {
				if len(f.got) > 1 || !slices.Equal(slices.Concat(f.got...), f.want) {
					t.Errorf("%v: an agent got %v, want %v", tt.ids, f.got, f.want)
				}
			}
		}
	}
}

// Repetitions have part in the length of a reply.
func TestRepeatedMetricsTooLong(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.MaxReply = 1 << 20 }, map[int]func(wire.Conn){
		240: serveAgent(stringsAgent(t, 240, 1000)),
	})
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
	for n, want := range map[int]string{1000: "240", 1100: "PM_ERR_TOOBIG"} {
		if got := show(c.do(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{id(240, 1000)}, n)})); !strings.HasPrefix(got, want) {
			t.Errorf("%d times: %.20s, want %s", n, got, want)
		}
	}
	r.awaitLogged(t, "the reply to FETCH would have more than 1048576 bytes")
}

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
