package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

func id(domain, item int) pdu.PMID { return pdu.NewPMID(domain, 0, item) }

// A DSO that is older than labels has one for its domain, and no others.
func TestLabelOfOldDSO(t *testing.T) {
	for iface, want := range map[int]string{0: "[]", 2: `{"agent":"old"}`, 6: `{"agent":"old"}`, 7: "[]"} {
		r := newHarness(t, func(cfg *Config) {
			open := cfg.Agents.Open
			cfg.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
				l, err := open(ctx, spec, opt)
				if err == nil && spec.Domain == 240 {
					l.Interface = iface
				}
				return l, err
			}
			if err := os.WriteFile(cfg.Files.Conf, []byte(`"pmdaold DSO" 240 dso t_init /t`+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, nil)
		c := r.dial()
		for _, kind := range []pdu.LabelKind{pdu.LabelDomain, pdu.LabelItem} {
			ident := uint32(240)
			if kind == pdu.LabelItem {
				ident, want = uint32(id(240, 1)), "[]"
			}
			m := c.do(&pdu.LabelReq{Kind: kind, Ident: ident}).(*pdu.Labels)
			got := "[]"
			if len(m.Sets) == 1 {
				got = string(m.Sets[0].JSON)
			}
			if got != want || m.Ident != ident || m.Kind != kind {
				t.Errorf("interface %d, %v: %s of %d, want %s", iface, m.Kind, got, m.Ident, want)
			}
		}
		row := fmt.Sprintf("dso i:%d  lib=/t entry=t_init", iface)
		r.awaitLogged(t, row)
	}
}

// What the client is reaches agents before its requests, and its end after.
func TestClientAttributes(t *testing.T) {
	a := &agentsettest.Tester{Domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	r.awaitStarts()
	c := r.dialTo("unix", r.unix, pdu.FeatureContainer)
	c.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte("bozo")}, &pdu.Profile{})
	c.fetch(id(240, 1))
	a.Awaits(t, fmt.Sprintf("attr 0 %v=%d", pdu.AttrUserID, os.Getuid()))
	a.Awaits(t, fmt.Sprintf("attr 0 %v=%d", pdu.AttrProcessID, os.Getpid()))
	a.Awaits(t, fmt.Sprintf("attr 0 %v=bozo", pdu.AttrContainer))
	a.Awaits(t, "fetch 0/0")
	c.Conn.Close()
	a.Awaits(t, "end 0")
	testutil.Eventually(t, "the number of the client is free", func() bool { return r.sessions.NumClients() == 0 })

	// An agent that starts later is told of the clients that are connected.
	b := &agentsettest.Tester{Domain: 241}
	r.play(241, serveAgent(b))
	d := r.dialTo("unix", r.unix, 0)
	d.do(&pdu.DescReq{PMID: id(241, 1)})
	if l := r.routes.Load().Agent(241).Conn(); l == nil {
		t.Fatal("not there")
	} else {
		l.Disconnect(errors.New("the test says so"))
	}
	r.Reload()
	b.Awaits(t, fmt.Sprintf("attr %d %v=%d", 0, pdu.AttrUserID, os.Getuid()))
}

// The number of a client is used again, and the agents that know of its last
// user are told before. Others are told nothing.
func TestClientNumbers(t *testing.T) {
	a, b := &agentsettest.Tester{Domain: 240}, &agentsettest.Tester{Domain: 241}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a), 241: serveAgent(b)})
	r.awaitStarts()
	fetch := &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}
	for _, tt := range []struct {
		what    string
		network string
		ask     []pdu.Message
		a, b    []string // what the agents are told
	}{
		{"asks one", "tcp", []pdu.Message{fetch}, []string{"fetch 0/0", "end 0"}, nil},
		{"asks none", "tcp", []pdu.Message{&pdu.Fetch{PMIDs: []pdu.PMID{id(2, 1)}}}, nil, nil},
		{"asks the other for a descriptor", "tcp", []pdu.Message{&pdu.DescReq{PMID: id(241, 1)}}, nil, []string{"end 0"}},
		{"asks for a name", "tcp", []pdu.Message{&pdu.PMNSNames{Names: []string{"d.x"}}}, []string{"end 0"}, nil},
		{"stores", "tcp", []pdu.Message{&pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}}, []string{"end 0"}, nil},
		{"asks both, one twice", "tcp", []pdu.Message{fetch, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), id(241, 1)}}},
			[]string{"fetch 0/0", "fetch 0/0", "end 0"}, []string{"fetch 0/0", "end 0"}},
		{"has attributes and asks none", "unix", []pdu.Message{&pdu.Fetch{PMIDs: []pdu.PMID{id(2, 1)}}},
			[]string{"attr 0", "end 0"}, []string{"attr 0", "end 0"}},
		{"asks one", "tcp", []pdu.Message{fetch}, []string{"fetch 0/0", "end 0"}, nil},
	} {
		addr := map[string]string{"tcp": r.tcp, "unix": r.unix}[tt.network]
		c := r.dialTo(tt.network, addr, 0)
		c.send(&pdu.Profile{})
		for _, m := range tt.ask {
			c.do(m)
		}
		c.Conn.Close()
		testutil.Eventually(t, "client gone", func() bool { return r.sessions.NumClients() == 0 })
		// What comes now is behind all that the last client was the reason for.
		for i, x := range []*agentsettest.Tester{a, b} {
			l := r.routes.Load().Agent(x.Domain).Conn()
			l.Notify(transport.Notice{Client: 99, End: true})
			x.Awaits(t, "end 99")
			if got, want := x.Notified(), append([][]string{tt.a, tt.b}[i], "end 99"); !slices.Equal(got, want) {
				t.Errorf("a client that %s: agent %d was told %q, want %q", tt.what, x.Domain, got, want)
			}
		}
	}
}

// State changes come before the next fetch, once, to all clients.
func TestStateChanges(t *testing.T) {
	a := &agentsettest.Tester{Domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	c, other := r.dial(), r.dial()
	for _, c := range []*client{c, other} {
		c.send(&pdu.Profile{})
		if _, changes := c.fetch(id(241, 1), id(240, 1)); changes != 0 {
			t.Errorf("at first: %d", changes)
		}
	}
	a.Flags = pdu.StateLabelChange | pdu.StateAddAgent // an agent cannot report the latter
	if _, changes := c.fetch(id(240, 1)); changes != pdu.StateLabelChange {
		t.Errorf("labels: got %d, want %d", changes, pdu.StateLabelChange)
	}
	a.Flags = 0
	if m := other.do(&pdu.Fetch{PMIDs: []pdu.PMID{id(241, 1)}}); m.(*pdu.Error).Code != pdu.StateLabelChange {
		t.Errorf("other client: %s", show(m))
	}
	if m := other.recv(); show(m) != "241.0.1=241" {
		t.Errorf("other client: %s", show(m))
	}
	if _, changes := other.fetch(id(240, 1)); changes != 0 {
		t.Errorf("again: %d", changes)
	}

	ag := r.routes.Load().Agent(240)
	ag.Conn().Disconnect(errors.New("the test says so"))
	r.Reload()
	testutil.Eventually(t, "restarted", func() bool { return r.Status().Reloads.Count == 1 })
	want := pdu.Errno(pdu.StateDropAgent | pdu.StateAddAgent | pdu.StateRestartAgent)
	if sets, changes := c.fetch(id(240, 1)); changes != want || showSets(sets) != "240.0.1=240" {
		t.Errorf("after a restart: %d %s, want %d", changes, showSets(sets), want)
	}
}

// A request for an agent that is being started waits for that; others do not.
func TestFirstStart(t *testing.T) {
	start := make(chan struct{})
	r := newHarness(t, nil, map[int]func(wire.Conn){240: func(c wire.Conn) {
		<-start
		serveAgent(&agentsettest.Tester{Domain: 240})(c)
	}})
	c := r.dial()
	if m := c.do(&pdu.DescReq{PMID: id(241, 1)}); m.Type() != pdu.TypeDesc {
		t.Errorf("another agent: %s", show(m))
	}
	c.send(&pdu.DescReq{PMID: id(240, 1)})
	close(start)
	if m := c.recv(); m.Type() != pdu.TypeDesc {
		t.Errorf("the agent: %s", show(m))
	}
}

// A slow agent delays no other, not even for clients that ask for it
// together with another.
func TestSlowAgent(t *testing.T) {
	slow := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}, 1), Leave: make(chan struct{})}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(slow)})
	x := r.dial()
	x.send(&pdu.Profile{}, &pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 9), id(241, 1), id(242, 1)}})
	<-slow.Enter
	y := r.dial()
	y.send(&pdu.Profile{})
	for range 3 { // X has replies of these two that it did not read yet
		if sets, _ := y.fetch(id(241, 1), id(242, 1)); showSets(sets) != "241.0.1=241 242.0.1=242" {
			t.Errorf("the other client: %s", showSets(sets))
		}
	}
	close(slow.Leave)
	if got := show(x.recv()); got != "240.0.9=240 241.0.1=241 242.0.1=242" {
		t.Errorf("the first client: %s", got)
	}
}

// An agent that has not answered in time is late until it has.
func TestLateAgent(t *testing.T) {
	slow := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}, 1), Leave: make(chan struct{})}
	r := newHarness(t, shortRequests(true), map[int]func(wire.Conn){240: serveAgent(slow)})
	c := r.dial()
	c.send(&pdu.Profile{})
	if sets, changes := c.fetch(id(240, 9), id(241, 1)); showSets(sets) != "240.0.9=PM_ERR_AGAIN 241.0.1=241" || changes != 0 {
		t.Errorf("timeout: %s, changes %d", showSets(sets), changes)
	}
	for _, tt := range []struct {
		req  pdu.Message
		want string
	}{
		{&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, "240.0.1=PM_ERR_AGAIN"},
		{&pdu.DescReq{PMID: id(240, 1)}, "PM_ERR_AGAIN"},
		{&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(2, 4, 1)}}, "2.4.1=0,0,0,0"},
		{&pdu.PMNSNames{Names: []string{"d.x"}}, "PM_ERR_NOAGENT"},
		{&pdu.PMNSNames{Names: []string{"d.x", "t.one"}}, "1 [PM_ID_NULL 240.0.1]"},
		{&pdu.PMNSChild{Name: "d"}, "PM_ERR_NOAGENT"},
		{&pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, "PM_ERR_AGAIN"},
	} {
		if got := show(c.do(tt.req)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.req.Type(), got, tt.want)
		}
	}
	if m := c.do(&pdu.PMNSTraverse{Name: "d"}).(*pdu.PMNSNames); !slices.Equal(m.Names, []string{"d"}) {
		t.Errorf("traverse: %q", m.Names)
	}
	if m := c.do(&pdu.PMNSTraverse{}).(*pdu.PMNSNames); !slices.Contains(m.Names, "d") {
		t.Errorf("traverse of all: %q", m.Names)
	}
	close(slow.Leave)
	testutil.Eventually(t, "ready again", func() bool {
		sets, _ := c.fetch(id(240, 1))
		return showSets(sets) == "240.0.1=240"
	})
}

// stringsAgent returns an agent whose metric with item n is a string of n bytes.
func stringsAgent(t *testing.T, domain int, sizes ...int) agents.Agent {
	t.Helper()
	conf := pmda.Config{Domain: domain}
	for _, n := range sizes {
		text := strings.Repeat("x", n)
		conf.Metrics = append(conf.Metrics, pmda.Metric{Item: n, Type: pdu.MetricString, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error { v.SetString(text); return nil }})
	}
	a, err := pmda.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The limits of the configuration hold. A reply that would be too long, of an agent or of
// several together, is PM_ERR_TOOBIG, and the log names the client.
func TestLimitsOfConfig(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Limits.Reply, c.Limits.Metrics, c.Limits.Contexts, c.Limits.PDU = 1000, 3, 1, 100 }, map[int]func(wire.Conn){
		240: serveAgent(stringsAgent(t, 240, 100, 600, 900, 1000)),
		241: serveAgent(stringsAgent(t, 241, 100, 600)),
	})
	r.awaitStarts()
	r.dial()
	c := r.dial()
	c.send(&pdu.Profile{})
	for _, tt := range []struct {
		ids  []pdu.PMID
		want string // without the values
	}{
		{[]pdu.PMID{id(240, 900)}, "240.0.900="},
		{[]pdu.PMID{id(240, 1000)}, "240.0.1000=PM_ERR_TOOBIG"},
		{[]pdu.PMID{id(240, 100), id(241, 100), id(240, 600)}, "240.0.100= 241.0.100= 240.0.600="},
		{[]pdu.PMID{id(240, 1000), id(241, 100)}, "240.0.1000=PM_ERR_TOOBIG 241.0.100="},
		{[]pdu.PMID{id(240, 600), id(241, 600)}, "PM_ERR_TOOBIG"},
		{[]pdu.PMID{id(240, 100), id(241, 100)}, "240.0.100= 241.0.100="},
	} {
		for _, m := range []pdu.Message{&pdu.Fetch{PMIDs: tt.ids}, &pdu.HighResFetch{PMIDs: tt.ids}} {
			if got := strings.ReplaceAll(show(c.do(m)), "x", ""); got != tt.want {
				t.Errorf("%v of %v: %s, want %s", m.Type(), tt.ids, got, tt.want)
			}
		}
	}
	r.awaitLogged(t, `client[1] 127.0.0.1: the reply of agent "t" (dom 240) to FETCH would have more than 1000 bytes`)
	if n := r.opens[240]; n != 1 {
		t.Errorf("the agent was started %d times", n)
	}
	if got := show(c.do(&pdu.Fetch{PMIDs: make([]pdu.PMID, 4)})); got != "PM_ERR_TOOBIG" {
		t.Errorf("a fetch of four metrics: %s", got)
	}
	if m, ok := c.do(&pdu.Profile{Context: 1}).(*pdu.Error); !ok || m.Code != pdu.ErrnoEAGAIN {
		t.Errorf("a second context: %+v", m)
	}
	c.send(&pdu.Fetch{PMIDs: make([]pdu.PMID, 30)})
	c.closed()
}
