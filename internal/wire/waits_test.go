package wire_test

import (
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A caller whose reply another goroutine has read does not wait for a PMDA.
func TestReplyIsThere(t *testing.T) {
	c, there, _ := fakePMDA(t, pipePair, wire.Options{Depth: 2})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: metricID})
	if err != nil {
		t.Fatal(err)
	}
	w := new(transporttest.Waiter)
	var replies []transport.Reply
	for _, call := range []*transport.Call{{Req: req, Waiter: w}, {Req: req}} {
		r, err := c.Send(call)
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, r)
		writePDUs(t, there, &pdu.Desc{PMID: metricID})
	}
	for _, r := range []transport.Reply{replies[1], replies[0]} { // the first to wait reads both
		if _, err := r.Recv(nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Waits(); n != 0 {
		t.Errorf("the caller is told %d times that it waits", n)
	}
}

// The caller is told before it waits for a PMDA.
func TestBeforeWait(t *testing.T) {
	const more = 1 << 20 // bytes than a pipe holds
	desc, descReply := &pdu.DescReq{PMID: metricID}, &pdu.Desc{PMID: metricID}
	large, largeReply := &pdu.Fetch{PMIDs: make([]pdu.PMID, more/4)}, new(pdu.Result)

	// wait returns a Wait of a call behind some that the agent has.
	wait := func(name string, before int, req, reply pdu.Message) transporttest.Wait {
		return transporttest.Wait{Name: name, Start: func(t *testing.T, w *transporttest.Waiter) (end func()) {
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
			go do(&transport.Call{Req: b, Waiter: w})
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
	transporttest.TestBeforeWait(t, testutil.Eventually, []transporttest.Wait{
		wait("for its turn", 1, desc, descReply),
		wait("for the reply", 0, desc, descReply),
		wait("until the agent reads", 0, large, largeReply),
	})
}
