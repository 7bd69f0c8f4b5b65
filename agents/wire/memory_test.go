package wire_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A Client does not keep Calls that are over: they are part of what has the
// buffers of a whole request.
func TestCallsAreNotKept(t *testing.T) { inAllWays(t, testCallsAreNotKept) }

func testCallsAreNotKept(t *testing.T, pair pair) {
	c, there, _ := by(t, pair, wire.Options{Depth: 4})
	const n = 3
	var over [n]weak.Pointer[transport.Call]
	func() {
		var calls [n]*transport.Call
		for i := range calls {
			calls[i] = ask(t, c, answerID)
			over[i] = weak.Make(calls[i])
		}
		for _, call := range calls {
			put(t, there, &pdu.Desc{PMID: answerID, InDom: pdu.NoInDom})
			if _, err := c.Recv(call, nil); err != nil {
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
