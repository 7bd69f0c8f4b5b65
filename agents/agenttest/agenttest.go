// Package agenttest tests agents, as package fstest tests file systems. The
// suite drives a Conduit, so it is the same for an Agent in process and for a
// PMDA in any language.
package agenttest

import (
	"errors"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Test checks that the agent behind cd keeps the promises of [agents.Agent]
// for its metrics ids, which must be of one domain.
func Test(t *testing.T, cd agents.Conduit, ids ...pdu.PMID) {
	t.Helper()
	for _, id := range ids {
		var d pdu.Desc
		if err := Do(cd, agents.Origin{}, &pdu.DescReq{PMID: id}, &d); err != nil {
			t.Errorf("Desc(%v): %v", id, err)
		} else if d.PMID != id {
			t.Errorf("Desc(%v) is of %v", id, d.PMID)
		}
	}
	var code pdu.Errno
	none := pdu.NewPMID(ids[0].Domain(), 4095, 1023)
	if err := Do(cd, agents.Origin{}, &pdu.DescReq{PMID: none}, new(pdu.Desc)); !errors.As(err, &code) {
		t.Errorf("Desc(%v) of an unknown metric: got %v, want a pdu.Errno", none, err)
	}

	// In the order asked for, twice the same included, unknown in between; in
	// two contexts of one client, so that the profile has to be sent again.
	ask := append([]pdu.PMID{none, ids[0]}, ids...)
	for context := range int32(2) {
		var r pdu.Result
		o := agents.Origin{Client: 3, Context: context}
		if err := Do(cd, o, &pdu.Fetch{Context: context, PMIDs: ask}, &r); err != nil {
			t.Fatalf("Fetch(%v): %v", ask, err)
		}
		if len(r.Sets) != len(ask) {
			t.Fatalf("Fetch of %d metrics returned %d value sets", len(ask), len(r.Sets))
		}
		for i, vs := range r.Sets {
			if vs.PMID != ask[i] {
				t.Errorf("Fetch: set %d is of %v, want %v", i, vs.PMID, ask[i])
			}
		}
		if len(r.Sets[0].Values) > 0 { // no error either from some: pmdasample
			t.Errorf("Fetch: unknown metric %v has values", none)
		}
	}
}

var all = new(pdu.Profile)

// Do sends req, a fetch with a profile that hides nothing, and decodes the
// reply into reply. An ERROR PDU becomes a pdu.Errno. The agent has five seconds.
func Do(cd agents.Conduit, o agents.Origin, req, reply pdu.Message) error {
	b, err := pdu.Append(nil, 0, req)
	if err != nil {
		return err
	}
	c := agents.Call{Origin: o, Timeout: 5 * time.Second, Req: b}
	if req.Type() == pdu.TypeFetch {
		c.Profile = all
	}
	if err := cd.Send(&c); err != nil {
		return err
	}
	if b, err = cd.Recv(&c, nil); err != nil {
		return err
	}
	if _, t, _ := pdu.Header(b); t == pdu.TypeError {
		var e pdu.Error
		if _, err := pdu.ParseInto(b, &e); err != nil {
			return err
		}
		if e.Code == 0 { // of a store
			return nil
		}
		return e.Code
	}
	_, err = pdu.ParseInto(b, reply)
	return err
}
