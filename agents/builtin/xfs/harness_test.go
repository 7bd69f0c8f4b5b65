package xfs

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent for a tree, and a client of it.
type harness struct {
	*pmdatest.Rig
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

// setUser tells the agent that its client is another one, of a user; "" is not
// known.
func (r *harness) setUser(uid string) {
	n := transport.Notice{End: true}
	if uid != "" {
		n.Attrs = []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(uid)}}
	}
	r.Transport.Notify(n)
}
