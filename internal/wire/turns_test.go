package wire_test

import (
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Clients take turns at a PMDA.
func TestTurns(t *testing.T) {
	transporttest.TestTurns(t, func(t *testing.T) transporttest.StepAgent {
		testutil.CheckGoroutines(t)
		c, there, r := fakePMDA(t, socketPair, wire.Options{})
		return transporttest.StepAgent{
			Transport: c,
			Next: func() int32 {
				b, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				_, _, client := pdu.Header(b)
				return client
			},
			Reply:      func() { there.Write(descReply) }, // fails if c is closed
			Eventually: testutil.Eventually,
		}
	})
}

// descReply is a DESC PDU.
var descReply, _ = pdu.Append(nil, 0, &pdu.Desc{PMID: metricID})

// A large request is sent alone. While it waits for that, small ones wait behind it, but
// not the daemon's own. If it gives up, they are sent at once.
func TestTurnsBehindLargeRequest(t *testing.T) {
	const first, large, small = 1, 2, 3
	for _, tt := range []struct {
		name      string
		timeout   time.Duration  // of the large request
		key       *fairqueue.Key // of the small one
		overtakes bool           // the small one is sent while the first is in flight
	}{
		{"a client's", 0, &fairqueue.Key{Member: small}, false},
		{"the daemon's", 0, nil, true},
		{"a client's, behind one that gives up", 100 * time.Millisecond, &fairqueue.Key{Member: small}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testutil.CheckGoroutines(t)
			c, there, r := fakePMDA(t, socketPair, wire.Options{Depth: 4})
			defer c.Close()
			there.SetReadDeadline(time.Now().Add(testutil.Hangs))
			over := make(chan error, 3)
			start := func(client int32, pmids int, key *fairqueue.Key, timeout time.Duration) {
				req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, pmids)})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, err := transport.Do(c, &transport.Call{Origin: agents.Origin{Client: client}, Req: req, Key: key, Timeout: timeout}, nil)
					over <- err
				}()
			}
			expect := func(want int32) {
				t.Helper()
				b, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if _, _, got := pdu.Header(b); got != want {
					t.Fatalf("the agent has a request of client %d, want %d", got, want)
				}
			}
			start(first, 1, &fairqueue.Key{Member: first}, 0)
			expect(first)
			start(large, 2000, &fairqueue.Key{Member: large}, tt.timeout)
			testutil.Eventually(t, "the large request waits", func() bool { return c.Waiting() == 1 || len(over) > 0 })
			start(small, 1, tt.key, 0)
			if !tt.overtakes {
				testutil.Eventually(t, "both wait", func() bool { return c.Waiting() == 2 })
				writePDUs(t, there, new(pdu.Result))
				expect(large)
				writePDUs(t, there, new(pdu.Result))
			}
			expect(small)
		})
	}
}
