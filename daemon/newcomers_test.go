package daemon

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// While pmcd has more requests than it can answer, a client is greeted at once, although others
// have sent their first PDU before.
func TestGreetingUnderOverload(t *testing.T) {
	const busy, connecting = 100, 400
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	var greeted []*client
	for range connecting {
		c := r.connect("unix", r.unix)
		if _, err := c.Greeting(); err != nil {
			t.Fatal(err)
		}
		greeted = append(greeted, c)
	}
	var replies atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	for range busy {
		c := r.dialTo("unix", r.unix, 0)
		defer c.Close()
		all.Go(func() {
			// An instance for each client; the next request is there before the reply to this one.
			for c.Send(&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(2, 6, 0)}}) == nil {
			}
		})
		all.Go(func() {
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
				replies.Add(1)
			}
		})
	}
	testutil.Eventually(t, "all are busy", func() bool { return replies.Load() > 10*busy })
	before := replies.Load()
	for _, c := range greeted {
		c.send(pdutest.Creds(0))
	}
	if _, err := r.connect("tcp", r.tcp).Greeting(); err != nil {
		t.Fatal(err)
	}
	if n := replies.Load() - before; n > 200*busy {
		t.Errorf("%d busy clients had %d replies before another was greeted", busy, n)
	}
}
