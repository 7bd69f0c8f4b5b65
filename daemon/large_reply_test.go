package daemon

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// While a client does not read a large reply, pmcd has its value sets in memory once, and not
// the parts that it was made of.
func TestLargeReplyIsHeldOnce(t *testing.T) {
	const size = 8 << 20
	r := newHarness(t, nil, map[int]func(wire.Conn){
		240: serveAgent(largeAgent(t, 240, size)),
		241: serveAgent(largeAgent(t, 241, size)),
	})
	r.awaitStarts()
	for _, tt := range []struct {
		name string
		ids  []pdu.PMID
		size int
	}{
		{"of one agent", []pdu.PMID{id(240, 0)}, size},
		{"of two agents", []pdu.PMID{id(240, 0), id(241, 0)}, 2 * size},
		{"of a repeated metric", slices.Repeat([]pdu.PMID{id(240, 0)}, 3), size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial().in(t)
			c.send(&pdu.Profile{})
			c.fetch(id(242, 1))
			before := testutil.LiveHeap()
			c.send(&pdu.Fetch{PMIDs: tt.ids})
			testutil.Eventually(t, "the client has unread bytes", func() bool {
				return r.held("unread replies") > size/2
			})
			if held := testutil.LiveHeap() - before; held > tt.size*5/4 { // less, if memory of a test before was freed meanwhile
				t.Errorf("%d bytes for value sets of %d", held, tt.size)
			}
			if res, ok := c.recv().(*pdu.Result); !ok || len(res.Sets) != len(tt.ids) {
				t.Errorf("got %T", res)
			}
		})
	}
}

// A client that does not read the reply to a long request that repeats a metric makes pmcd keep little
// more than that request, and it counts as unread.
func TestRepeatedReplyThatIsNotRead(t *testing.T) {
	const size, times = 1 << 10, 11_500
	r := newHarness(t, func(c *Config) { c.Limits.Metrics = times }, map[int]func(wire.Conn){240: serveAgent(largeAgent(t, 240, size))})
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
	c.fetch(id(240, 0))
	before := testutil.LiveHeap()
	c.send(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{id(240, 0)}, times)})
	const order = 4 * times
	testutil.Eventually(t, "the client has unread bytes", func() bool { return r.held("unread replies") >= order })
	if unread, requests := r.held("unread replies"), r.held("incomplete requests"); unread > order+16<<10 || requests != 0 {
		t.Errorf("%d bytes count as unread, and %d as an incomplete request", unread, requests)
	}
	if held := testutil.LiveHeap() - before; held > 2*order {
		t.Errorf("%d bytes for a request of %d", held, order)
	}
	res, ok := c.recv().(*pdu.Result)
	if !ok || len(res.Sets) != times || len(res.Sets[times-1].Values) != 1 {
		t.Fatalf("got %T", res)
	}
	testutil.Eventually(t, "nothing is unread", func() bool { return r.held("unread replies") == 0 })
	c.fetch(id(240, 0))
}

// A session that waits for an agent does not hold the reply to the request before, which
// the client has read.
func TestLargeReplyIsNotHeldDuringTheNextRequest(t *testing.T) {
	const size = 1000 << 10 // not so large that its buffer is freed before the write
	asked, step := make(chan int32), make(chan struct{})
	r := newHarness(t, nil, map[int]func(wire.Conn){
		240: serveAgent(largeAgent(t, 240, size)),
		241: stepByStep(asked, step),
	})
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
	c.fetch(id(242, 1))
	before := testutil.LiveHeap()
	c.send(&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 0)}}, &pdu.DescReq{PMID: id(241, 1)})
	if n, err := io.CopyN(io.Discard, c.Conn, size); err != nil {
		t.Fatalf("%d bytes of the reply: %v", n, err)
	}
	// What is left of the reply is in the socket.
	<-asked
	if held := testutil.LiveHeap() - before; held > size/4 {
		t.Errorf("%d bytes beside a reply of %d that the client has read", held, size)
	}
	step <- struct{}{}
}

// largeAgent returns an agent whose metric is a string of n bytes.
func largeAgent(t *testing.T, domain, n int) agents.Agent {
	text := strings.Repeat("x", n)
	a, err := pmda.New(pmda.Config{Domain: domain, Metrics: []pmda.Metric{{
		Type: pdu.MetricString, Sem: pdu.SemInstant,
		Fetch: func(_ context.Context, v *pmda.Value) error { v.SetString(text); return nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
