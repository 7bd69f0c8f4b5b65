package wire_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
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

// A profile is sent only if the agent has a different one.
func TestProfiles(t *testing.T) {
	a := &profileCounter{seen: make(map[*pdu.Profile]bool)}
	c := serveAgent(t, a, wire.Options{})
	parse := func(p *pdu.Profile) *transport.Profile {
		b, err := pdu.Append(nil, 0, p)
		if err != nil {
			t.Fatal(err)
		}
		parsed, _, err := transport.ParseProfile(b)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	some := func(indom pdu.InDom, exclude bool, insts ...int32) *transport.Profile {
		return parse(&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: exclude, Insts: insts}}})
	}
	// Of more than 1 KiB.
	large := func(context int32, insts ...int32) *transport.Profile {
		return parse(&pdu.Profile{Context: context, InDoms: []pdu.InDomProfile{{InDom: 1, Insts: append(insts, make([]int32, 300)...)}}})
	}
	p, q := some(1, false, 1), some(1, false, 1)
	more, otherInDom, others := some(1, false, 1, 2), some(2, false, 1, 2), some(2, true, 1, 2)
	all, also, none := parse(&pdu.Profile{Context: 3}), parse(new(pdu.Profile)), parse(&pdu.Profile{Exclude: true})
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
		{"replaced by the same", transport.Call{Origin: o, Profile: q}, 1},
		{"the same of another client", transport.Call{Origin: other, Profile: q}, 1},
		{"one more instance", transport.Call{Origin: o, Profile: more}, 2},
		{"another instance domain", transport.Call{Origin: o, Profile: otherInDom}, 3},
		{"only the others", transport.Call{Origin: o, Profile: others}, 4},
		{"all instances", transport.Call{Origin: o, Profile: all}, 5},
		{"all instances for another client", transport.Call{Origin: other, Profile: all}, 5},
		{"all instances, replaced", transport.Call{Origin: o, Profile: also}, 5},
		{"no instances", transport.Call{Origin: o, Profile: none}, 6},
		{"no instances for another client", transport.Call{Origin: other, Profile: none}, 6},
		{"a large one", transport.Call{Origin: o, Profile: large(3, 1, 2)}, 7},
		{"a large one, the same of another client and context", transport.Call{Origin: other, Profile: large(4, 1, 2)}, 7},
		{"a large one with another instance", transport.Call{Origin: o, Profile: large(3, 1, 3)}, 8},
		{"back", transport.Call{Origin: o, Profile: q}, 9},
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
	if n := a.count(); n != 10 {
		t.Errorf("after the end of the client: %d profiles, want 10", n)
	}
}
