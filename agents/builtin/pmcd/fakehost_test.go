package pmcd

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A fakeHost is a Host whose values change only by its setters. Calls of the other
// methods that act are recorded in calls.
type fakeHost struct {
	status  Status
	agents  []AgentInfo
	clients []ClientInfo
	counts  pdu.Counts
	calls   []string

	snapshots atomic.Int32 // calls of Clients
}

func (h *fakeHost) Status(s *Status)                       { *s = h.status }
func (h *fakeHost) Agents(dst []AgentInfo) []AgentInfo     { return append(dst, h.agents...) }
func (h *fakeHost) Hostname(client int32) string           { return "host" + string('0'+rune(client)) }
func (h *fakeHost) Labels() string                         { return `{"a":1}` }
func (h *fakeHost) SetWhoami(client int32, s string)       { h.client(client).Whoami = s }
func (h *fakeHost) SetContainer(client int32, name string) { h.client(client).Container = name }
func (h *fakeHost) SetTimeout(d time.Duration)             { h.status.Timeout = d }
func (h *fakeHost) SetCredsTimeout(d time.Duration)        { h.status.CredsTimeout = d }
func (h *fakeHost) SetTrace(t Trace)                       { h.status.Trace = t }
func (h *fakeHost) SetTraceBufs(n int)                     { h.status.TraceBufs = n }
func (h *fakeHost) DumpTrace()                             { h.calls = append(h.calls, "DumpTrace") }
func (h *fakeHost) DumpClients()                           { h.calls = append(h.calls, "DumpClients") }
func (h *fakeHost) Sighup()                                { h.calls = append(h.calls, "Sighup") }
func (h *fakeHost) BumpSeqnum()                            { h.status.Seqnum++ }

func (h *fakeHost) Clients(_ context.Context, dst []ClientInfo, p pdu.InDomProfile) ([]ClientInfo, error) {
	h.snapshots.Add(1)
	for _, c := range h.clients {
		if p.Includes(c.Seq) {
			dst = append(dst, c)
		}
	}
	return dst, nil
}

func (h *fakeHost) ClientSeqs() (seqs []int32) {
	for _, c := range h.clients {
		seqs = append(seqs, c.Seq)
	}
	return seqs
}

func (h *fakeHost) SetDebug(opts string) error {
	if strings.Contains(opts, "nonsense") {
		return pdu.ErrnoConv
	}
	h.status.Debug = opts
	return nil
}

func (h *fakeHost) SetFenced(domain int, on bool) {
	for i := range h.agents {
		if h.agents[i].Domain == domain {
			h.agents[i].Fenced = on
		}
	}
}

func (h *fakeHost) Client(num int32) (ClientInfo, bool) {
	if c := h.client(num); c != nil {
		return *c, true
	}
	return ClientInfo{}, false
}

func (h *fakeHost) client(num int32) *ClientInfo {
	for i := range h.clients {
		if h.clients[i].Client == num {
			return &h.clients[i]
		}
	}
	return nil
}

// Numbers of newHost's clients.
const (
	root   = 3 // over the local socket
	user   = 1
	remote = 2 // over TCP, so its user is not known
)

func newHost() *fakeHost {
	h := &fakeHost{
		status: Status{
			PID: 4711, Agents: 3, Clients: 3, Sighups: 2, Seqnum: 5,
			Timeout: 5 * time.Second, CredsTimeout: 3 * time.Second,
			Limits: Limits{InPDUSize: 65536, Contexts: 64, Metrics: 32768},
			Debug:  "appl0,pdu", Trace: TraceConn | TraceNoBuf, TraceBufs: 20,
			Features: Features{IPv6: true, UnixDomainSockets: true, Containers: true},
		},
		agents: []AgentInfo{
			{Domain: 60, Name: "linux", Kind: KindDSO},
			{Domain: 2, Name: "pmcd", Kind: KindDSO},
			{Domain: 30, Name: "sampledso", Kind: KindPipe, Status: 0x90008, Fenced: true},
			{Domain: 11, Name: "sock", Kind: KindSocket, Status: 1},
		},
		clients: []ClientInfo{
			{Client: root, Seq: 0, UID: 0, Started: time.Unix(1e9, 0), Whoami: "vm -x"},
			{Client: user, Seq: 7, UID: 1000, Started: time.Unix(1e9+1, 0), Container: "box"},
			{Client: remote, Seq: 9, UID: -1, Started: time.Unix(1e9+2, 0)},
		},
	}
	for i := range uint32(0x18) {
		for n := range i + 1 {
			h.counts.In(pdu.TypeError + pdu.Type(i))
			if n < i {
				h.counts.Out(pdu.TypeError + pdu.Type(i))
			}
		}
	}
	h.status.PDUs = &h.counts
	return h
}

// newAgent returns an agent that reads no files.
func newAgent(h Host) *Agent { return New(2, "pmcd", h, Config{Build: "1"}) }

// includeAll is a profile that selects everything.
var includeAll = new(pdu.Profile)

func fetchAs(t testing.TB, a *Agent, client int32, p *pdu.Profile, ids ...pdu.PMID) []pdu.ValueSet {
	t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	r := &agents.FetchRequest{Origin: agents.Origin{Client: client}, PMIDs: ids, Profile: p}
	if err := a.Fetch(context.Background(), r, &w); err != nil {
		t.Fatalf("Fetch(%v) = %v", ids, err)
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatalf("Fetch(%v): %v", ids, err)
	}
	_, m, err := pdu.Parse(b)
	if err != nil {
		t.Fatalf("Fetch(%v): %v", ids, err)
	}
	sets := m.(*pdu.Result).Sets
	if len(sets) != len(ids) {
		t.Fatalf("Fetch(%v): %d sets", ids, len(sets))
	}
	return sets
}

// values fetches one metric and returns its decoded values.
func values(t testing.TB, a *Agent, client int32, p *pdu.Profile, id pdu.PMID) []instValue {
	t.Helper()
	vs := fetchAs(t, a, client, p, id)[0]
	if vs.Err < 0 {
		t.Fatalf("Fetch(%v): %v", id, vs.Err)
	}
	d, err := a.Desc(context.Background(), agents.Origin{}, id)
	if err != nil {
		t.Fatal(err)
	}
	var list []instValue
	for _, v := range vs.Values {
		list = append(list, instValue{v.Inst, decode(t, d.ValueType, &vs, v)})
	}
	return list
}

type instValue struct {
	inst  int32
	value any // int64, float64 or string
}

func decode(t testing.TB, typ pdu.MetricType, vs *pdu.ValueSet, v pdu.Value) any {
	t.Helper()
	if insitu := vs.Format == pdu.FormatInsitu; insitu != (typ == i32 || typ == u32) || !insitu && v.Type != typ {
		t.Fatalf("%v: type %v, format %d, block of %v", vs.PMID, typ, vs.Format, v.Type)
	}
	var n uint64
	for _, c := range v.Block {
		n = n<<8 | uint64(c)
	}
	switch typ {
	case i32:
		return int64(int32(v.Word))
	case u32:
		return int64(v.Word)
	case u64:
		return int64(n)
	case float:
		return float64(math.Float32frombits(uint32(n)))
	case doubl:
		return math.Float64frombits(n)
	case str:
		s, ok := strings.CutSuffix(string(v.Block), "\x00")
		if !ok {
			t.Fatalf("%v: no NUL at the end of %q", vs.PMID, v.Block)
		}
		return s
	}
	t.Fatalf("%v: type %v", vs.PMID, typ)
	return nil
}

func id(cluster, item int) pdu.PMID { return pdu.NewPMID(2, cluster, item) }

// errnoOf returns the error code that a client would get; 0 is success.
func errnoOf(err error) pdu.Errno {
	if err == nil {
		return 0
	}
	code := pdu.ErrnoGeneric
	errors.As(err, &code)
	return code
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
