package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// tester is an agent with a counter, a string and an instance domain, and
// names of its own below d.
type tester struct {
	domain int

	mu      sync.Mutex
	records []string
	stored  []string
	enter   chan struct{} // if not nil: told of a fetch of item 9 ...
	leave   chan struct{} // ... which returns when this is closed
	flags   int32         // state changes to report
}

func (a *tester) id(item int) pdu.PMID { return pdu.NewPMID(a.domain, 0, item) }

func (a *tester) record(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, fmt.Sprintf(format, args...))
}

func (a *tester) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	switch id.Item() {
	case 1, 9:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
	case 2:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricString, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
	case 3:
		return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NewInDom(a.domain, 1), Sem: pdu.SemInstant}, nil
	}
	return pdu.Desc{}, pdu.ErrnoPMID
}

func (a *tester) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.record("fetch %d/%d", r.Origin.Client, r.Origin.Context)
	if a.flags != 0 {
		w.SetTime(a.flags, 0)
	}
	for _, id := range r.PMIDs {
		switch id.Item() {
		case 9:
			if a.enter != nil {
				a.enter <- struct{}{}
				<-a.leave
			}
			fallthrough
		case 1:
			w.Begin(id)
			w.Word(-1, uint32(a.domain))
		case 2:
			w.Begin(id)
			w.String(-1, fmt.Sprintf("s%d", a.domain))
		case 3:
			w.Begin(id)
			for i := range int32(3) {
				if r.Profile.Includes(pdu.NewInDom(a.domain, 1), i) {
					w.Word(i, uint32(100+i))
				}
			}
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

func (a *tester) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom != pdu.NewInDom(a.domain, 1) {
		return nil, pdu.ErrnoInDom
	}
	return []pdu.Inst{{ID: 0, Name: "red"}, {ID: 1, Name: "green"}, {ID: 2, Name: "blue"}}, nil
}

func (a *tester) Store(_ context.Context, _ agents.Origin, r *pdu.Result) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, vs := range r.Sets {
		if vs.PMID.Item() == 2 {
			return pdu.ErrnoPermission
		}
		a.stored = append(a.stored, showSets([]pdu.ValueSet{vs}))
	}
	return nil
}

func (a *tester) PMID(_ context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	switch name {
	case "d.x":
		return a.id(1), nil
	case "d.sub":
		return 0, pdu.ErrnoNonLeaf
	}
	return 0, pdu.ErrnoName
}

func (a *tester) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if id == a.id(5) {
		return []string{"d.sub.five"}, nil
	}
	return nil, pdu.ErrnoPMID
}

func (a *tester) Children(_ context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	if name != "d" {
		return nil, pdu.ErrnoName
	}
	return []pdu.Child{{Name: "x", Leaf: true}, {Name: "sub"}}, nil
}

func (a *tester) Traverse(_ context.Context, _ agents.Origin, name string) ([]string, error) {
	if name != "d" {
		return nil, pdu.ErrnoName
	}
	return []string{"d.x", "d.sub.five"}, nil
}

func (a *tester) SetAttr(client int32, attr pdu.Attr) {
	a.record("attr %d %v=%s", client, attr.Code, attr.Value)
}
func (a *tester) EndContext(client int32) { a.record("end %d", client) }

// told returns and clears the list of what the agent was told. Of attributes it has only the
// client.
func (a *tester) told() (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.records {
		if strings.HasPrefix(h, "attr") {
			h = strings.Join(strings.Fields(h)[:2], " ")
			if slices.Contains(list, h) {
				continue
			}
		}
		list = append(list, h)
	}
	a.records = nil
	return list
}

// awaits waits until the agent was told something.
func (a *tester) awaits(t *testing.T, what string) {
	t.Helper()
	testutil.Eventually(t, "told "+what, func() bool {
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
