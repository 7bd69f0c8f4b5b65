package xfs

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent that reads a tree of files, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	host *host
}

func newHarness(tb testing.TB, root string) *harness {
	tb.Helper()
	h := newHost(11, Options{Root: root})
	a, err := h.agent(help)
	if err != nil {
		tb.Fatal(err)
	}
	r := &harness{pmdatest.New(tb, 11, a, newHost(11, Options{}).metrics()), h}
	r.setUser("0")
	return r
}

// setUser replaces the client by one of this user; "" is a user that pmcd does not
// know.
func (r *harness) setUser(uid string) {
	var attrs []pdu.Attr
	if uid != "" {
		attrs = []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(uid)}}
	}
	r.NewClient(attrs...)
}
