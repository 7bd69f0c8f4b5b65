package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

func id(domain, item int) pdu.PMID { return pdu.NewPMID(domain, 0, item) }

// Requests and their replies, as protocol and C pmcd have them.
func TestRequests(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dial()
	c.send(&pdu.Profile{})
	names := func(n ...string) *pdu.PMNSNames { return &pdu.PMNSNames{Names: n} }
	tests := []struct {
		name string
		req  pdu.Message
		want string
	}{
		{"fetch of one agent", &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), id(240, 2)}}, "240.0.1=240 240.0.2=s240"},
		{"fetch in high resolution", &pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 2), id(240, 3)}}, "240.0.2=s240 240.0.3=100,101,102"},
		{
			"fetch of several agents, duplicates, unknown ones",
			&pdu.HighResFetch{PMIDs: []pdu.PMID{id(241, 1), id(240, 2), id(241, 1), id(248, 1), pdu.NoPMID, id(240, 77), id(2, 2), id(242, 2)}},
			"241.0.1=241 240.0.2=s240 241.0.1=241 248.0.1=PM_ERR_NOAGENT PM_ID_NULL=PM_ERR_NOAGENT 240.0.77=PM_ERR_PMID 2.0.2=4 242.0.2=s242",
		},
		{"fetch of an unknown domain", &pdu.Fetch{PMIDs: []pdu.PMID{id(248, 1), pdu.DynamicRoot(248)}}, "248.0.1=PM_ERR_NOAGENT 511.248.0=PM_ERR_NOAGENT"},
		{"fetch in a context without profile", &pdu.Fetch{Context: 3, PMIDs: []pdu.PMID{id(240, 1)}}, "PM_ERR_NOPROFILE"},
		{"desc", &pdu.DescReq{PMID: id(240, 2)}, "240.0.2 STRING"},
		{"desc of an unknown metric", &pdu.DescReq{PMID: id(240, 77)}, "PM_ERR_PMID"},
		{"desc of an unknown domain", &pdu.DescReq{PMID: id(248, 1)}, "PM_ERR_PMID"},
		{"one desc by DESC_IDS", &pdu.DescIDs{PMIDs: []pdu.PMID{id(248, 1)}}, "PM_ERR_PMID"},
		{"instance by name", &pdu.InstanceReq{InDom: pdu.NewInDom(240, 1), Inst: -1, Name: "green"}, "&{InDom:240.1 Insts:[{ID:1 Name:}]}"},
		{"instance by number", &pdu.InstanceReq{InDom: pdu.NewInDom(240, 1), Inst: 2}, "&{InDom:240.1 Insts:[{ID:-1 Name:blue}]}"},
		{"no such instance", &pdu.InstanceReq{InDom: pdu.NewInDom(240, 1), Inst: 5}, "PM_ERR_INST"},
		{"no such indom", &pdu.InstanceReq{InDom: pdu.NewInDom(240, 2), Inst: -1}, "PM_ERR_INDOM"},
		{"indom of an unknown domain", &pdu.InstanceReq{InDom: pdu.NewInDom(248, 2), Inst: -1}, "PM_ERR_INDOM"},
		{"no help", &pdu.TextReq{Ident: uint32(id(240, 1)), Kind: pdu.TextPMID | pdu.TextHelp}, "PM_ERR_TEXT"},
		{"help of an unknown domain", &pdu.TextReq{Ident: uint32(id(248, 1)), Kind: pdu.TextPMID | pdu.TextHelp}, "PM_ERR_PMID"},
		{"names", names("t.one", "t.two"), "2 [240.0.1 240.0.2]"},
		{"names, some unknown", names("t.none", "t", "t.two", "", "t.two.", ".t"), "1 [PM_ID_NULL PM_ID_NULL 240.0.2 PM_ID_NULL PM_ID_NULL PM_ID_NULL]"},
		{"one unknown name", names("t.none"), "PM_ERR_NAME"},
		{"one name that is not a leaf", names("t"), "PM_ERR_NONLEAF"},
		{"no names", names(), "PM_ERR_TOOSMALL"},
		{"name without agent", names("w.one"), "1 [243.0.1]"},
		{"dynamic name", names("d.x"), "1 [240.0.1]"},
		{"dynamic names, some unknown", names("d.x", "d.y", "d.sub"), "1 [240.0.1 PM_ID_NULL PM_ID_NULL]"},
		{"dynamic name that is not a leaf", names("d.sub"), "PM_ERR_NONLEAF"},
		{"names of a metric, the last one first", &pdu.PMNSIDs{PMIDs: []pdu.PMID{id(240, 1)}}, "0 [t.alias t.one] []"},
		{"dynamic name of a metric", &pdu.PMNSIDs{PMIDs: []pdu.PMID{id(240, 5)}}, "0 [d.sub.five] []"},
		{"names of an unknown metric", &pdu.PMNSIDs{PMIDs: []pdu.PMID{id(240, 6)}}, "PM_ERR_PMID"},
		{"names in an unknown domain", &pdu.PMNSIDs{PMIDs: []pdu.PMID{id(248, 6)}}, "PM_ERR_NOAGENT"},
		{"names of the root of a dynamic subtree", &pdu.PMNSIDs{PMIDs: []pdu.PMID{pdu.DynamicRoot(240)}}, "PM_ERR_NOAGENT"},
		{"children", &pdu.PMNSChild{Name: "t"}, "0 [one two inst alias] []"},
		{"children of the root with status", &pdu.PMNSChild{Subtype: 1}, "0 [pmcd t u v w d gone] [1 1 1 1 1 1 1]"},
		{"children of a leaf", &pdu.PMNSChild{Subtype: 1, Name: "t.one"}, "0 [] []"},
		{"children of nothing", &pdu.PMNSChild{Name: "t.none"}, "PM_ERR_NAME"},
		{"dynamic children", &pdu.PMNSChild{Name: "d"}, "0 [x sub] []"},
		{"dynamic children with status", &pdu.PMNSChild{Subtype: 7, Name: "d"}, "0 [x sub] [0 1]"},
		{"dynamic children of nothing", &pdu.PMNSChild{Name: "d.none"}, "-12357 [] []"},
		{"traverse", &pdu.PMNSTraverse{Name: "t"}, "0 [t.one t.two t.inst t.alias] []"},
		{"traverse of a leaf", &pdu.PMNSTraverse{Name: "t.two"}, "0 [t.two] []"},
		{"traverse of a dynamic subtree", &pdu.PMNSTraverse{Name: "d"}, "0 [d.x d.sub.five] []"},
		{"traverse below a dynamic subtree without agent", &pdu.PMNSTraverse{Name: "gone.x"}, "PM_ERR_NOAGENT"},
		{"traverse of a dynamic subtree without agent", &pdu.PMNSTraverse{Name: "gone"}, "0 [gone] []"},
		{"help of neither a metric nor an instance domain", &pdu.TextReq{Ident: uint32(id(240, 1)), Kind: pdu.TextHelp}, "PM_ERR_PMID"},
		{"traverse of nothing", &pdu.PMNSTraverse{Name: "x"}, "PM_ERR_NAME"},
		{"labels of an unknown kind", &pdu.LabelReq{Kind: 64}, "PM_ERR_TYPE"},
		{"labels of an unknown domain", &pdu.LabelReq{Kind: pdu.LabelDomain, Ident: 248}, "PM_ERR_NOAGENT"},
		{"labels of an unknown indom", &pdu.LabelReq{Kind: pdu.LabelInstances, Ident: uint32(pdu.NewInDom(248, 1))}, "PM_ERR_INDOM"},
		{"labels of an unknown metric", &pdu.LabelReq{Kind: pdu.LabelItem, Ident: uint32(id(248, 1))}, "PM_ERR_PMID"},
		{"no labels", &pdu.LabelReq{Kind: pdu.LabelItem, Ident: uint32(id(240, 1))}, "&{Ident:1006632961 Kind:item Sets:[]}"},
		{"store without an agent", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(248, 1)}}}, "PM_ERR_NOAGENT"},
		{"store of nothing", &pdu.Result{}, "0"},
		{"store refused", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 2)}}}, "PM_ERR_PERMISSION"},
		{"store, one agent missing", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 2)}, {PMID: id(248, 1)}, {PMID: id(241, 1)}}}, "PM_ERR_NOAGENT"},
		{"a reply as a request", &pdu.Desc{}, "PM_ERR_IPC"},
		{"an error as a request", &pdu.Error{}, "PM_ERR_IPC"},
		{"two PMIDs for names", &pdu.PMNSIDs{PMIDs: []pdu.PMID{1, 2}}, "PM_ERR_IPC"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := c.in(t)
			if got := show(c.do(tt.req)); got != tt.want {
				t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
			}
		})
	}
	whole := c.do(&pdu.PMNSTraverse{}).(*pdu.PMNSNames).Names
	if n := len(whole); n < 10 || !slices.Contains(whole, "d.sub.five") || slices.Contains(whole, "d") {
		t.Errorf("traverse of all: %q", whole)
	}
}

// A DSO that is older than labels has one for its domain, and no others.
func TestLabelOfOldDSO(t *testing.T) {
	for iface, want := range map[int]string{0: "[]", 2: `{"agent":"old"}`, 6: `{"agent":"old"}`, 7: "[]"} {
		r := newHarness(t, func(cfg *Config) {
			open := cfg.Open
			cfg.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
				l, err := open(ctx, spec, opt)
				if err == nil && spec.Domain == 240 {
					l.Interface = iface
				}
				return l, err
			}
			if err := os.WriteFile(cfg.ConfigFile, []byte(`"pmdaold DSO" 240 dso t_init /t`+"\n"), 0o666); err != nil {
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

func TestDescIDs(t *testing.T) {
	r := newHarness(t, nil, nil)
	const times = 50 // more than are asked for at once
	ids := slices.Repeat([]pdu.PMID{id(240, 77), id(240, 2), id(248, 1), id(241, 1)}, times)
	m := r.dial().do(&pdu.DescIDs{PMIDs: ids}).(*pdu.Descs)
	var got []string
	for _, d := range m.Descs {
		got = append(got, d.PMID.String())
	}
	want := slices.Repeat([]string{"PM_ID_NULL", "240.0.2", "PM_ID_NULL", "241.0.1"}, times)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if m.Descs[0] != (pdu.Desc{PMID: pdu.NoPMID}) {
		t.Errorf("without descriptor: %+v", m.Descs[0])
	}
}

// Each context of a client has a profile of its own.
func TestProfiles(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dial()
	one := pdu.InDomProfile{InDom: pdu.NewInDom(240, 1), Exclude: true, Insts: []int32{1}}
	c.send(&pdu.Profile{}, &pdu.Profile{Context: 1, InDoms: []pdu.InDomProfile{one}})
	for range 2 {
		for context, want := range []string{"240.0.3=100,101,102", "240.0.3=101"} {
			got := show(c.do(&pdu.Fetch{Context: int32(context), PMIDs: []pdu.PMID{id(240, 3)}}))
			if got != want {
				t.Errorf("context %d: got %s, want %s", context, got, want)
			}
		}
	}
}

// An agent can tell contexts apart, also those that share a profile.
func TestContextsOfAnAgent(t *testing.T) {
	a := &tester{domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	for client := range 2 {
		c := r.dial()
		for context := range int32(2) {
			c.send(&pdu.Profile{Context: context})
			c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 1)}})
			a.awaits(t, fmt.Sprintf("fetch %d/%d", client, context))
		}
	}
}

// What the client is reaches agents before its requests, and its end after.
func TestClientAttributes(t *testing.T) {
	a := &tester{domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	r.awaitStarts()
	c := r.dialTo("unix", r.unix, pdu.FeatureContainer)
	c.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte("bozo")}, &pdu.Profile{})
	c.fetch(id(240, 1))
	a.awaits(t, fmt.Sprintf("attr 0 %v=%d", pdu.AttrUserID, os.Getuid()))
	a.awaits(t, fmt.Sprintf("attr 0 %v=%d", pdu.AttrProcessID, os.Getpid()))
	a.awaits(t, fmt.Sprintf("attr 0 %v=bozo", pdu.AttrContainer))
	a.awaits(t, "fetch 0/0")
	c.Conn.Close()
	a.awaits(t, "end 0")
	testutil.Eventually(t, "the number of the client is free", func() bool { return r.sessions.NumClients() == 0 })

	// An agent that starts later is told of the clients that are connected.
	b := &tester{domain: 241}
	r.play(241, serveAgent(b))
	d := r.dialTo("unix", r.unix, 0)
	d.do(&pdu.DescReq{PMID: id(241, 1)})
	if l := r.routes.Load().Agent(241).Conn(); l == nil {
		t.Fatal("not there")
	} else {
		l.Disconnect(errors.New("the test says so"))
	}
	r.Reload()
	b.awaits(t, fmt.Sprintf("attr %d %v=%d", 0, pdu.AttrUserID, os.Getuid()))
}

func TestContainerNames(t *testing.T) {
	r := newHarness(t, nil, nil)
	for name, want := range map[string]pdu.Errno{"": -pdu.Errno(syscall.EINVAL), "a b": -pdu.Errno(syscall.EINVAL), "A-1.b_c": 0} {
		c := r.dialTo("tcp", r.tcp, pdu.FeatureContainer)
		c.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte(name)})
		if want != 0 {
			if got := c.recv().(*pdu.Error).Code; got != want {
				t.Errorf("%q: got %v, want %v", name, got, want)
			}
		}
		if m := c.do(&pdu.DescReq{PMID: id(240, 1)}); m.Type() != pdu.TypeDesc { // usable all the same
			t.Errorf("%q: then %v", name, show(m))
		}
	}
	c := r.dialTo("tcp", r.tcp, pdu.FeatureContainer)
	if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got != "PM_ERR_IPC" {
		t.Errorf("no name: got %s, want PM_ERR_IPC", got)
	}
}

// What CREDS can say (protocol: CREDS, client to pmcd).
func TestCreds(t *testing.T) {
	r := newHarness(t, nil, nil)
	const ok, end = "ok", "end"
	tests := []struct {
		name  string
		creds []pdu.Cred
		want  []string // error names, then what a request gets
	}{
		{"version 2", []pdu.Cred{0x01020000}, []string{ok}},
		{"any other version", []pdu.Cred{0x017f0000}, []string{ok}},
		{"version 0", []pdu.Cred{0x01000000}, []string{end}},
		{"of another kind", []pdu.Cred{0x02020000}, []string{end}},
		{"the last one counts", []pdu.Cred{0x01000000, 0x01020000}, []string{ok}},
		{"unknown flag", []pdu.Cred{0x01020020}, []string{"PM_ERR_IPC", ok}},
		{"flag of the greeting", []pdu.Cred{0x01020400}, []string{"PM_ERR_IPC", ok}},
		{"compression", []pdu.Cred{0x01020002}, []string{"EOPNOTSUPP", ok}},
		{"TLS without a certificate", []pdu.Cred{0x01020001}, []string{"PM_ERR_NOTCONN", ok}},
		{"and with acknowledgement", []pdu.Cred{0x01020011}, []string{"PM_ERR_NOTCONN", "PM_ERR_NOTCONN", ok}},
		{"no creds", []pdu.Cred{}, []string{"PM_ERR_IPC", end}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.connect("tcp", r.tcp)
			c.t = t
			c.recv()
			if len(tt.creds) == 0 {
				c.sendBytes([]byte{0, 0, 0, 16, 0, 0, 0x70, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0})
			} else {
				c.send(&pdu.Creds{Creds: tt.creds})
			}
			c.send(&pdu.DescReq{PMID: id(240, 1)})
			for _, want := range tt.want {
				switch want {
				case ok:
					if m := c.recv(); m.Type() != pdu.TypeDesc {
						t.Errorf("got %s, want a descriptor", show(m))
					}
				case end:
					c.closed()
				case "EOPNOTSUPP":
					if m := c.recv().(*pdu.Error); m.Code != -pdu.Errno(syscall.EOPNOTSUPP) {
						t.Errorf("got %v, want %s", m.Code, want)
					}
				default:
					if got := show(c.recv()); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			}
		})
	}
}

// The number of a client is used again, and the agents that know of its last
// user are told before. Others are told nothing.
func TestClientNumbers(t *testing.T) {
	a, b := &tester{domain: 240}, &tester{domain: 241}
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
		for i, x := range []*tester{a, b} {
			l := r.routes.Load().Agent(x.domain).Conn()
			l.Notify(transport.Notice{Client: 99, End: true})
			x.awaits(t, "end 99")
			if got, want := x.told(), append([][]string{tt.a, tt.b}[i], "end 99"); !slices.Equal(got, want) {
				t.Errorf("a client that %s: agent %d was told %q, want %q", tt.what, x.domain, got, want)
			}
		}
	}
}

// State changes come before the next fetch, once, to all clients.
func TestStateChanges(t *testing.T) {
	a := &tester{domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	c, other := r.dial(), r.dial()
	for _, c := range []*client{c, other} {
		c.send(&pdu.Profile{})
		if _, changes := c.fetch(id(241, 1), id(240, 1)); changes != 0 {
			t.Errorf("at first: %d", changes)
		}
	}
	a.flags = pdu.StateLabelChange | pdu.StateAddAgent // an agent cannot report the latter
	if _, changes := c.fetch(id(240, 1)); changes != pdu.StateLabelChange {
		t.Errorf("labels: got %d, want %d", changes, pdu.StateLabelChange)
	}
	a.flags = 0
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
	testutil.Eventually(t, "restarted", func() bool { return r.Reloads().Count == 1 })
	want := pdu.Errno(pdu.StateDropAgent | pdu.StateAddAgent | pdu.StateRestartAgent)
	if sets, changes := c.fetch(id(240, 1)); changes != want || showSets(sets) != "240.0.1=240" {
		t.Errorf("after a restart: %d %s, want %d", changes, showSets(sets), want)
	}
}

// A fence stops requests, but not stores, and names stay.
func TestFence(t *testing.T) {
	a := &tester{domain: 240}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(a)})
	r.awaitStarts()
	c := r.dialTo("unix", r.unix, 0)
	c.send(&pdu.Profile{})
	store := func(v uint32) string {
		return show(c.do(&pdu.Result{Sets: []pdu.ValueSet{{PMID: pdu.NewPMID(2, 4, 2), Values: []pdu.Value{{Inst: 240, Word: v}}}}}))
	}
	if os.Getuid() != 0 {
		if got := store(1); got != "PM_ERR_PERMISSION" {
			t.Errorf("fenced by a user: %s", got)
		}
		host{r.Daemon}.SetFenced(240, true)
	} else if got := store(1); got != "0" {
		t.Fatalf("cannot fence: %s", got)
	}
	for _, tt := range []struct {
		req  pdu.Message
		want string
	}{
		{&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, "240.0.1=PM_ERR_PMDAFENCED"},
		{&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), id(241, 1)}}, "240.0.1=PM_ERR_PMDAFENCED 241.0.1=241"},
		{&pdu.DescReq{PMID: id(240, 1)}, "PM_ERR_PMDAFENCED"},
		{&pdu.PMNSNames{Names: []string{"d.x"}}, "PM_ERR_PMDAFENCED"},
		{&pdu.PMNSNames{Names: []string{"d.x", "t.one"}}, "1 [PM_ID_NULL 240.0.1]"},
		{&pdu.PMNSTraverse{Name: "d"}, "0 [d] []"},
		{&pdu.PMNSChild{Name: "d"}, "PM_ERR_PMDAFENCED"},
		{&pdu.Result{Sets: []pdu.ValueSet{{PMID: id(240, 1)}}}, "0"},
	} {
		if got := show(c.do(tt.req)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.req.Type(), got, tt.want)
		}
	}
}

// A request for an agent that is being started waits for that; others do not.
func TestFirstStart(t *testing.T) {
	start := make(chan struct{})
	r := newHarness(t, nil, map[int]func(wire.Conn){240: func(c wire.Conn) {
		<-start
		serveAgent(&tester{domain: 240})(c)
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
	slow := &tester{domain: 240, enter: make(chan struct{}, 1), leave: make(chan struct{})}
	r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(slow)})
	x := r.dial()
	x.send(&pdu.Profile{}, &pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 9), id(241, 1), id(242, 1)}})
	<-slow.enter
	y := r.dial()
	y.send(&pdu.Profile{})
	for range 3 { // X has replies of these two that it did not read yet
		if sets, _ := y.fetch(id(241, 1), id(242, 1)); showSets(sets) != "241.0.1=241 242.0.1=242" {
			t.Errorf("the other client: %s", showSets(sets))
		}
	}
	close(slow.leave)
	if got := show(x.recv()); got != "240.0.9=240 241.0.1=241 242.0.1=242" {
		t.Errorf("the first client: %s", got)
	}
}

// An agent that has not answered in time is late until it has.
func TestLateAgent(t *testing.T) {
	slow := &tester{domain: 240, enter: make(chan struct{}, 1), leave: make(chan struct{})}
	r := newHarness(t, func(c *Config) { c.RequestTimeout = 50 * time.Millisecond }, map[int]func(wire.Conn){240: serveAgent(slow)})
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
	close(slow.leave)
	testutil.Eventually(t, "ready again", func() bool {
		sets, _ := c.fetch(id(240, 1))
		return showSets(sets) == "240.0.1=240"
	})
}
