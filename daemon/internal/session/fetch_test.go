package session

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/pdu"
)

// The limit of replies holds for names, too.
func TestMaxReplyOfNames(t *testing.T) {
	table, size := tableOf(t, nil), 0
	for _, less := range []int{-1, 0, 1} {
		log, logs := logtest.NewLog()
		c := dial(t, newServer(t, table, func(c *Config) {
			if c.Log = log; less >= 0 {
				c.MaxReply = size - less
			}
		}))
		c.send(&pdu.PMNSTraverse{})
		got := c.recv()
		if less > 0 {
			if got := agentsettest.Show(got); got != "PM_ERR_TOOBIG" || len(logs.With("the reply to PMNS_TRAVERSE would have more than")) != 1 {
				t.Errorf("got %s, and the log has %+v", got, logs.All())
			}
			continue
		}
		b, err := pdu.Append(nil, 0, got)
		if err != nil || len(got.(*pdu.PMNSNames).Names) < 10 {
			t.Fatalf("got %s, %v", agentsettest.Show(got), err)
		}
		size = len(b)
	}
}

// An idRecorder is an agent that records the PMIDs of each fetch.
type idRecorder struct {
	agentsettest.Tester
	mu      sync.Mutex // guards fetched
	fetched [][]pdu.PMID
}

func (a *idRecorder) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.mu.Lock()
	a.fetched = append(a.fetched, slices.Clone(r.PMIDs))
	a.mu.Unlock()
	return a.Tester.Fetch(ctx, r, w)
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
	t240, t241 := &idRecorder{Tester: agentsettest.Tester{Domain: 240}}, &idRecorder{Tester: agentsettest.Tester{Domain: 241}}
	c := dial(t, newServer(t, tableOf(t, map[int]agents.Agent{240: t240, 241: t241}), nil))
	c.send(&pdu.Profile{})
	a, b, s, none := id(240, 1), id(240, 3), id(240, 2), id(240, 77)
	x, y := id(241, 2), id(241, 3)
	values := map[pdu.PMID]string{
		a: "240.0.1=240", b: "240.0.3=100,101,102", s: "240.0.2=s240", none: "240.0.77=PM_ERR_PMID",
		x: "241.0.2=s241", y: "241.0.3=100,101,102", id(243, 1): "243.0.1=PM_ERR_NOAGENT",
	}
	for _, tt := range []struct{ ids, of240, of241 []pdu.PMID }{
		{[]pdu.PMID{a, a}, []pdu.PMID{a}, nil},
		{[]pdu.PMID{s, b, s, s, b, none, none, a}, []pdu.PMID{s, b, none, a}, nil},
		{[]pdu.PMID{x, x, y, x}, nil, []pdu.PMID{x, y}},
		{[]pdu.PMID{x, s, y, x, s, a, y, id(243, 1), id(243, 1), x}, []pdu.PMID{s, a}, []pdu.PMID{x, y}},
		{[]pdu.PMID{id(243, 1), id(243, 1)}, nil, nil},
		{slices.Repeat([]pdu.PMID{b, x}, 50), []pdu.PMID{b}, []pdu.PMID{x}},
		{[]pdu.PMID{b, s, a}, []pdu.PMID{b, s, a}, nil},
	} {
		var want []string
		for _, id := range tt.ids {
			want = append(want, values[id])
		}
		for _, m := range []pdu.Message{&pdu.Fetch{PMIDs: tt.ids}, &pdu.HighResFetch{PMIDs: tt.ids}} {
			if got := c.do(m); got != strings.Join(want, " ") {
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

// A reply that is written in pieces is the same as one that is not, behind the notice of a state
// change.
func TestLongRepeatedReply(t *testing.T) {
	const times = 200
	c := dial(t, newServer(t, tableOf(t, map[int]agents.Agent{240: &blockAgent{block: make([]byte, 1000)}}), func(c *Config) { c.MaxReply, c.MaxMetrics = 1<<20, 2*times }))
	c.send(&pdu.Profile{})
	one, other := id(240, 1000), id(241, 3)
	want := strings.Fields(c.do(&pdu.Fetch{PMIDs: []pdu.PMID{one, other}}))
	ids := slices.Repeat([]pdu.PMID{one, other}, times)
	for _, m := range []pdu.Message{&pdu.Fetch{PMIDs: ids}, &pdu.HighResFetch{PMIDs: ids}} {
		c.s.client.Notices.Store(pdu.StateNamesChange)
		c.send(m)
		if notice, ok := c.recv().(*pdu.Error); !ok || notice.Code != pdu.StateNamesChange {
			t.Errorf("%v: no notice", m.Type())
		}
		if got := agentsettest.Show(c.recv()); got != strings.Join(slices.Repeat(want, times), " ") {
			t.Errorf("%v: got %.200s", m.Type(), got)
		}
	}
}

// Repetitions have part in the length of a reply.
func TestRepeatedMetricsTooLong(t *testing.T) {
	log, logs := logtest.NewLog()
	c := dial(t, newServer(t, tableOf(t, map[int]agents.Agent{240: &blockAgent{block: make([]byte, 1000)}}), func(c *Config) { c.MaxReply, c.MaxMetrics, c.Log = 1<<20, 2000, log }))
	c.send(&pdu.Profile{})
	for n, want := range map[int]string{1000: "240", 1100: "PM_ERR_TOOBIG"} {
		if got := c.do(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{id(240, 1000)}, n)}); !strings.HasPrefix(got, want) {
			t.Errorf("%d times: %.20s, want %s", n, got, want)
		}
	}
	if len(logs.With("the reply to FETCH would have more than 1048576 bytes")) != 1 {
		t.Errorf("the log has %+v", logs.All())
	}
}

// largeProfile returns a profile of n bytes that selects one instance of 240.1.
func largeProfile(context, inst int32, n int) *pdu.Profile {
	p := &pdu.Profile{Context: context, InDoms: []pdu.InDomProfile{
		{InDom: pdu.NewInDom(240, 1), Exclude: true, Insts: []int32{inst}},
		{InDom: pdu.NewInDom(240, 9), Exclude: true, Insts: make([]int32, n/4)},
	}}
	for i := range p.InDoms[1].Insts {
		p.InDoms[1].Insts[i] = int32(-i)
	}
	return p
}

// A client has the profiles of its contexts, large and small, as long as there is room
// for all of them. A profile that is refused leaves none in its place.
func TestProfilesOfOneClient(t *testing.T) {
	log, logs := logtest.NewLog()
	srv := newServer(t, tableOf(t, nil), func(c *Config) { c.MaxContexts, c.Log = 8, log })
	srv.limits.profiles.All = 100 << 10
	c := dial(t, srv)
	fetch := func(context int32) string {
		return c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 3)}})
	}
	for i := range int32(4) {
		c.send(largeProfile(i, i%3, 20<<10))
	}
	c.send(largeProfile(4, 1, 0))
	for range 2 {
		for i, want := range []string{"240.0.3=100", "240.0.3=101", "240.0.3=102", "240.0.3=100", "240.0.3=101"} {
			if got := fetch(int32(i)); got != want {
				t.Errorf("context %d: got %s, want %s", i, got, want)
			}
		}
	}
	for _, context := range []int32{7, 2} {
		p := largeProfile(context, 0, 50<<10)
		c.send(p)
		if m, ok := c.recv().(*pdu.Error); !ok || m.Code != pdu.ErrnoEAGAIN {
			t.Errorf("a profile that is too much for context %d: %v", context, m)
		}
		if got := fetch(context); got != "PM_ERR_NOPROFILE" {
			t.Errorf("context %d after that: %s", context, got)
		}
	}
	c.send(largeProfile(2, 2, 20<<10))
	if got := fetch(2); got != "240.0.3=102" {
		t.Errorf("a smaller one: %s", got)
	}
	if len(logs.With("a profile is refused (EAGAIN): profiles: it has")) == 0 {
		t.Error("it is not in the log")
	}
}
