package session

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// Requests and their replies, as protocol and C pmcd have them.
func TestRequests(t *testing.T) {
	c := dial(t, newServer(t, tableOf(t, nil), nil))
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
			&pdu.HighResFetch{PMIDs: []pdu.PMID{id(241, 1), id(240, 2), id(241, 1), id(248, 1), pdu.NoPMID, id(240, 77), id(242, 2)}},
			"241.0.1=241 240.0.2=s240 241.0.1=241 248.0.1=PM_ERR_NOAGENT PM_ID_NULL=PM_ERR_NOAGENT 240.0.77=PM_ERR_PMID 242.0.2=s242",
		},
		{"fetch of an unknown domain", &pdu.Fetch{PMIDs: []pdu.PMID{id(248, 1), pdu.DynamicRoot(248)}}, "248.0.1=PM_ERR_NOAGENT 511.248.0=PM_ERR_NOAGENT"},
		{"fetch in a context without profile", &pdu.Fetch{Context: 3, PMIDs: []pdu.PMID{id(240, 1)}}, "PM_ERR_NOPROFILE"},
		{"desc", &pdu.DescReq{PMID: id(240, 2)}, "240.0.2 STRING"},
		{"desc of an unknown metric", &pdu.DescReq{PMID: id(240, 77)}, "PM_ERR_PMID"},
		{"desc of an unknown domain", &pdu.DescReq{PMID: id(248, 1)}, "PM_ERR_PMID"},
		{"one desc by DESC_IDS", &pdu.DescIDs{PMIDs: []pdu.PMID{id(248, 1)}}, "PM_ERR_PMID"},
		{"descs of two agents", &pdu.DescIDs{PMIDs: []pdu.PMID{id(240, 77), id(240, 2), id(248, 1), id(241, 1), id(240, 2)}},
			"PM_ID_NULL 32 240.0.2 STRING PM_ID_NULL 32 241.0.1 U32 240.0.2 STRING"},
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
		{"store, one agent missing", &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(248, 1)}, {PMID: id(240, 2)}, {PMID: id(241, 1)}}}, "PM_ERR_NOAGENT"},
		{"a reply as a request", &pdu.Desc{}, "PM_ERR_IPC"},
		{"an error as a request", &pdu.Error{}, "PM_ERR_IPC"},
		{"two PMIDs for names", &pdu.PMNSIDs{PMIDs: []pdu.PMID{1, 2}}, "PM_ERR_IPC"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			if got := c.do(tt.req); got != tt.want {
				t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
			}
		})
	}
	c.t = t
	c.send(&pdu.PMNSTraverse{})
	whole := c.recv().(*pdu.PMNSNames).Names
	if n := len(whole); n < 10 || !slices.Contains(whole, "d.sub.five") || slices.Contains(whole, "d") {
		t.Errorf("traverse of all: %q", whole)
	}
}

// An agent can tell contexts apart, also those that share a profile.
func TestContextsOfAnAgent(t *testing.T) {
	a := &agentsettest.Tester{Domain: 240}
	srv := newServer(t, tableOf(t, map[int]agents.Agent{240: a}), func(c *Config) { c.MaxContexts = 2 })
	for client := range 2 {
		c := dial(t, srv)
		for context := range int32(2) {
			c.send(&pdu.Profile{Context: context})
			c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 1)}})
			a.Awaits(t, fmt.Sprintf("fetch %d/%d", client, context))
		}
	}
}

// A client that cannot choose a container goes on without one.
func TestContainerNames(t *testing.T) {
	srv := newServer(t, tableOf(t, nil), nil)
	begin := func(next pdu.Message) *talk {
		c := accept(t, srv, &fakeConn{peer: conn.Peer{Unix: true}})
		c.send(pdutest.Creds(pdu.FeatureContainer), next)
		return c
	}
	desc := &pdu.DescReq{PMID: id(240, 1)}
	for name, want := range map[string]pdu.Errno{"": pdu.ErrnoEINVAL, "a b": pdu.ErrnoEINVAL, "A-1.b_c": 0} {
		c := begin(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte(name)})
		if want != 0 {
			if m, ok := c.recv().(*pdu.Error); !ok || m.Code != want {
				t.Errorf("%q: got %v, want %v", name, m, want)
			}
		}
		if got := c.do(desc); got != "240.0.1 U32" {
			t.Errorf("%q: then %s", name, got)
		}
	}
	if got := agentsettest.Show(begin(desc).recv()); got != "PM_ERR_IPC" {
		t.Errorf("no name: got %s, want PM_ERR_IPC", got)
	}
}

// What CREDS can say (protocol: CREDS, client to pmcd).
func TestCreds(t *testing.T) {
	srv := newServer(t, tableOf(t, nil), nil)
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
		{"acknowledgement of nothing", []pdu.Cred{0x01020010}, []string{ok}},
		{"TLS and an unknown flag", []pdu.Cred{0x01022001}, []string{"PM_ERR_IPC", ok}},
		{"TLS and compression", []pdu.Cred{0x01020003}, []string{"EOPNOTSUPP", ok}},
		{"a login", []pdu.Cred{0x01020004}, []string{"EOPNOTSUPP", ok}},
		{"no creds", []pdu.Cred{}, []string{"PM_ERR_IPC", end}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := accept(t, srv, &fakeConn{peer: conn.Peer{Addr: netip.MustParseAddr("192.0.2.1")}})
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
						t.Errorf("got %s, want a descriptor", agentsettest.Show(m))
					}
				case end:
					c.closed()
				case "EOPNOTSUPP":
					if m := c.recv().(*pdu.Error); m.Code != -pdu.Errno(syscall.EOPNOTSUPP) {
						t.Errorf("got %v, want %s", m.Code, want)
					}
				default:
					if got := agentsettest.Show(c.recv()); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			}
		})
	}
}

// A fence stops requests, but not stores, and names stay.
func TestFence(t *testing.T) {
	table := tableOf(t, nil)
	c := dial(t, newServer(t, table, nil))
	c.send(&pdu.Profile{})
	table.Agent(240).SetFenced(true)
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
		if got := c.do(tt.req); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.req.Type(), got, tt.want)
		}
	}
}
