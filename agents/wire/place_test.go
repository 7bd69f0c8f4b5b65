package wire_test

import (
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// While a call waits for a PMDA, others compute in its place.
func TestLeavesPlace(t *testing.T) {
	const more = 1 << 20 // bytes than a pipe holds
	desc, descReply := &pdu.DescReq{PMID: metricID}, &pdu.Desc{PMID: metricID}
	large, largeReply := &pdu.Fetch{PMIDs: make([]pdu.PMID, more/4)}, new(pdu.Result)

	// wait returns a Wait of a call behind some that the agent has.
	wait := func(name string, before int, req, reply pdu.Message) transporttest.Wait {
		return transporttest.Wait{Name: name, Start: func(t *testing.T, p *transporttest.Place) (end func()) {
			c, there, r := fakePMDA(t, pipePair, wire.Options{Depth: 1})
			done := make(chan error, 1)
			do := func(call *transport.Call) {
				_, err := transport.Do(c, call, nil)
				done <- err
			}
			b, err := pdu.Append(nil, 0, req)
			if err != nil {
				t.Fatal(err)
			}
			next := func() {
				if _, err := r.Next(); err != nil {
					t.Error(err)
				}
			}
			for range before {
				go do(&transport.Call{Req: b})
				next()
			}
			go do(&transport.Call{Req: b, Place: p})
			return func() {
				for range before {
					writePDUs(t, there, reply)
				}
				next()
				writePDUs(t, there, reply)
				for range before + 1 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			}
		}}
	}
	transporttest.TestLeavesPlace(t, testutil.Eventually, []transporttest.Wait{
		wait("for its turn", 1, desc, descReply),
		wait("for the reply", 0, desc, descReply),
		wait("until the agent reads", 0, large, largeReply),
	})
}
