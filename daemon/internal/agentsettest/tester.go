package agentsettest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A Tester is an agent with a counter, a string and an instance domain, and
// names of its own below d.
type Tester struct {
	Domain int

	mu      sync.Mutex
	records []string
	stored  []string
	Enter   chan struct{} // if not nil: told of a fetch of item 9 ...
	Leave   chan struct{} // ... which returns when this is closed
	Flags   int32         // state changes to report
}

func (a *Tester) id(item int) pdu.PMID { return pdu.NewPMID(a.Domain, 0, item) }

func (a *Tester) record(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, fmt.Sprintf(format, args...))
}

func (a *Tester) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	switch id.Item() {
	case 1, 9:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
	case 2:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricString, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
	case 3:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NewInDom(a.Domain, 1), Sem: pdu.SemInstant}, nil
	}
	return pdu.Desc{}, pdu.ErrnoPMID
}

func (a *Tester) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.record("fetch %d/%d", r.Origin.Client, r.Origin.Context)
	if a.Flags != 0 {
		w.SetTime(a.Flags, 0)
	}
	for _, id := range r.PMIDs {
		switch id.Item() {
		case 9:
			if a.Enter != nil {
				a.Enter <- struct{}{}
				<-a.Leave
			}
			fallthrough
		case 1:
			w.Begin(id)
			w.Word(-1, uint32(a.Domain))
		case 2:
			w.Begin(id)
			w.String(-1, fmt.Sprintf("s%d", a.Domain))
		case 3:
			w.Begin(id)
			for i := range int32(3) {
				if r.Profile.Includes(pdu.NewInDom(a.Domain, 1), i) {
					w.Word(i, uint32(100+i))
				}
			}
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

func (a *Tester) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom != pdu.NewInDom(a.Domain, 1) {
		return nil, pdu.ErrnoInDom
	}
	return []pdu.Inst{{ID: 0, Name: "red"}, {ID: 1, Name: "green"}, {ID: 2, Name: "blue"}}, nil
}

func (a *Tester) Store(_ context.Context, _ agents.Origin, r *pdu.Result) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, vs := range r.Sets {
		if vs.PMID.Item() == 2 {
			return pdu.ErrnoPermission
		}
		a.stored = append(a.stored, ShowSets([]pdu.ValueSet{vs}))
	}
	return nil
}

func (a *Tester) PMID(_ context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	switch name {
	case "d.x":
		return a.id(1), nil
	case "d.sub":
		return 0, pdu.ErrnoNonLeaf
	}
	return 0, pdu.ErrnoName
}

func (a *Tester) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if id == a.id(5) {
		return []string{"d.sub.five"}, nil
	}
	return nil, pdu.ErrnoPMID
}

func (a *Tester) Children(_ context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	if name != "d" {
		return nil, pdu.ErrnoName
	}
	return []pdu.Child{{Name: "x", Leaf: true}, {Name: "sub"}}, nil
}

func (a *Tester) Traverse(_ context.Context, _ agents.Origin, name string) ([]string, error) {
	if name != "d" {
		return nil, pdu.ErrnoName
	}
	return []string{"d.x", "d.sub.five"}, nil
}

func (a *Tester) SetAttr(client int32, attr pdu.Attr) {
	a.record("attr %d %v=%s", client, attr.Code, attr.Value)
}
func (a *Tester) EndContext(client int32) { a.record("end %d", client) }

// Records returns and clears the list of what the agent was notified of.
func (a *Tester) Records() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.records
	a.records = nil
	return list
}

// Notified is Records with only the client of attributes.
func (a *Tester) Notified() (list []string) {
	for _, h := range a.Records() {
		if strings.HasPrefix(h, "attr") {
			h = strings.Join(strings.Fields(h)[:2], " ")
			if slices.Contains(list, h) {
				continue
			}
		}
		list = append(list, h)
	}
	return list
}

// Awaits waits until the agent was notified of something.
func (a *Tester) Awaits(t testing.TB, what string) {
	t.Helper()
	testutil.Eventually(t, "notified of "+what, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, h := range a.records {
			if h == what {
				return true
			}
		}
		return false
	})
}

// Names is a name space in which names of Testers are, below d those that the agent 240 has
// itself.
const Names = `
root { pmcd t u v w d 240:*:* gone 248:*:* }
pmcd { numagents 2:0:2 numclients 2:0:3 agent control seqnum 2:0:24 version 2:0:7 client }
pmcd.agent { status 2:4:1 fenced 2:4:2 }
pmcd.control { timeout 2:0:4 sighup 2:0:15 }
pmcd.client { whoami 2:6:0 }
t { one 240:0:1 two 240:0:2 inst 240:0:3 alias 240:0:1 }
u { one 241:0:1 }
v { one 242:0:1 }
w { one 243:0:1 }
`

// Show returns a short form of a reply, for comparing.
func Show(m pdu.Message) string {
	switch m := m.(type) {
	case *pdu.Error:
		return m.Code.Name()
	case *pdu.HighResResult:
		return ShowSets(m.Sets)
	case *pdu.Result:
		return ShowSets(m.Sets)
	case *pdu.PMNSNames:
		return fmt.Sprint(int32(m.Err), m.Names, m.Status)
	case *pdu.PMNSIDs:
		return fmt.Sprint(m.Status, m.PMIDs)
	case *pdu.Descs:
		var out []string
		for _, d := range m.Descs {
			out = append(out, fmt.Sprint(d.PMID, d.ValueType))
		}
		return strings.Join(out, " ")
	case *pdu.Desc:
		return fmt.Sprint(m.PMID, m.ValueType)
	}
	return fmt.Sprintf("%+v", m)
}

// ShowSets returns the values of metrics.
func ShowSets(sets []pdu.ValueSet) string {
	var out []string
	for _, vs := range sets {
		s := vs.PMID.String() + "="
		if vs.Err != 0 {
			s += vs.Err.Name()
		}
		for i, v := range vs.Values {
			if i > 0 {
				s += ","
			}
			if v.Block != nil {
				s += strings.TrimRight(string(v.Block), "\x00")
			} else {
				s += fmt.Sprint(v.Word)
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
