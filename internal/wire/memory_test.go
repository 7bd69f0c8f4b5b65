package wire_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A Client does not keep finished Calls alive: each is part of an object with the
// buffers of a whole request.
func TestCallsAreNotKept(t *testing.T) { forEachPair(t, testCallsAreNotKept) }

func testCallsAreNotKept(t *testing.T, pair pairFunc) {
	c, there, _ := fakePMDA(t, pair, wire.Options{Depth: 4})
	const n = 3
	var over [n]weak.Pointer[transport.Call]
	func() {
		req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: metricID})
		if err != nil {
			t.Fatal(err)
		}
		var replies [n]transport.Reply
		for i := range replies {
			call := &transport.Call{Req: req}
			over[i] = weak.Make(call)
			if replies[i], err = c.Send(call); err != nil {
				t.Fatal(err)
			}
		}
		for _, reply := range replies {
			writePDUs(t, there, &pdu.Desc{PMID: metricID, InDom: pdu.NoInDom})
			if _, err := reply.Recv(nil); err != nil {
				t.Fatal(err)
			}
		}
	}()
	runtime.GC()
	for i := range over {
		if over[i].Value() != nil {
			t.Errorf("call %d is kept", i)
		}
	}
	runtime.KeepAlive(c)
}
