package wire_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// profileCounter counts the profiles that it receives, by their address.
type profileCounter struct {
	oneMetricAgent
	mu   sync.Mutex
	seen map[*pdu.Profile]bool
	last agents.Origin
}

func (a *profileCounter) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.mu.Lock()
	a.seen[r.Profile], a.last = true, r.Origin
	a.mu.Unlock()
	return a.oneMetricAgent.Fetch(ctx, r, w)
}

// count returns the number of profiles received.
func (a *profileCounter) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// A profile is sent only if the agent has a different one, or that of another
// context. A profile without instance domains is the same for all contexts.
func TestProfiles(t *testing.T) {
	a := &profileCounter{seen: make(map[*pdu.Profile]bool)}
	c := serveAgent(t, a, wire.Options{})
	some := []pdu.InDomProfile{{InDom: 1, Insts: []int32{1}}}
	p, q := &pdu.Profile{Context: 3, InDoms: some}, &pdu.Profile{InDoms: some}
	all, also, none := &pdu.Profile{Context: 3}, new(pdu.Profile), &pdu.Profile{Exclude: true}
	req, err := pdu.Append(nil, 0, &pdu.Fetch{Context: 3, PMIDs: []pdu.PMID{metricID}})
	if err != nil {
		t.Fatal(err)
	}
	o, other := agents.Origin{Client: 1, Context: 3}, agents.Origin{Client: 2, Context: 3}
	steps := []struct {
		name string
		call transport.Call
		want int
	}{
		{"first", transport.Call{Origin: o, Profile: p}, 1},
		{"same again", transport.Call{Origin: o, Profile: p}, 1},
		{"replaced", transport.Call{Origin: o, Profile: q}, 2},
		{"of another client", transport.Call{Origin: other, Profile: q}, 3},
		{"all instances", transport.Call{Origin: o, Profile: all}, 4},
		{"all instances for another client", transport.Call{Origin: other, Profile: all}, 4},
		{"all instances, replaced", transport.Call{Origin: o, Profile: also}, 4},
		{"no instances", transport.Call{Origin: o, Profile: none}, 5},
		{"no instances for another client", transport.Call{Origin: other, Profile: none}, 5},
		{"back", transport.Call{Origin: o, Profile: q}, 6},
	}
	for _, s := range steps {
		s.call.Req = req
		if _, err := transport.Do(c, &s.call, nil); err != nil {
			t.Fatal(err)
		}
		if n := a.count(); n != s.want {
			t.Errorf("%s: %d profiles, want %d", s.name, n, s.want)
		}
	}
	c.Notify(transport.Notice{Client: 1, End: true})
	call := transport.Call{Origin: o, Profile: q, Req: req}
	transport.Do(c, &call, nil)
	if n := a.count(); n != 7 {
		t.Errorf("after the end of the client: %d profiles, want 7", n)
	}
}
