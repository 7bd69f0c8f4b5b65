package wire_test

import (
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Tests of Calls with several requests.

// sendSeveral sends a Call with requests for the descriptors of ids, and returns the Reply
// when the agent has the requests.
func sendSeveral(t *testing.T, c *wire.Client, r *pdu.Reader, timeout time.Duration, ids ...pdu.PMID) transport.Reply {
	t.Helper()
	var req []byte
	for _, id := range ids {
		req, _ = pdu.Append(req, 0, &pdu.DescReq{PMID: id})
	}
	reply, err := c.Send(&transport.Call{MayBlock: true, Req: req, Batched: true, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	for range ids {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return reply
}

// receive waits for the reply to a Call and returns the PMIDs of its descriptors.
func receive(t *testing.T, reply transport.Reply) (ids []pdu.PMID) {
	t.Helper()
	b, err := reply.Recv([]byte("dst."))
	if err != nil {
		t.Fatal(err)
	}
	for b = b[len("dst."):]; len(b) > 0; {
		var d pdu.Desc
		n, _, _ := pdu.Header(b)
		if _, err := pdu.ParseInto(b[:n], &d); err != nil {
			t.Fatal(err)
		}
		ids, b = append(ids, d.PMID), b[n:]
	}
	return ids
}

func checkIDs(t *testing.T, got []pdu.PMID, want ...pdu.PMID) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d, want %d", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

// Another caller can read some of the replies of a Call, and give up.
func TestSeveralReadByAnother(t *testing.T) { forEachPair(t, testSeveralReadByAnother) }

func testSeveralReadByAnother(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	for range 2 { // with new memory, and with that of before
		first := sendSeveral(t, c, r, 0, 1, 2, 3)
		writePDUs(t, there, &pdu.Desc{PMID: 1}, &pdu.Desc{PMID: 2})
		req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 4})
		if _, err := c.Send(&transport.Call{MayBlock: true, Req: req, Timeout: 20 * time.Millisecond}); err != transport.ErrLate {
			t.Errorf("got %v, want %v", err, transport.ErrLate)
		}
		writePDUs(t, there, &pdu.Desc{PMID: 3})
		checkIDs(t, receive(t, first), 1, 2, 3)
	}
}

// Another caller can read all replies of a Call.
func TestSeveralReadForAnother(t *testing.T) { forEachPair(t, testSeveralReadForAnother) }

func testSeveralReadForAnother(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: 2})
	first := sendSeveral(t, c, r, 0, 1, 2, 3)
	second := sendSeveral(t, c, r, 0, 4, 5)
	writePDUs(t, there, &pdu.Desc{PMID: 1}, &pdu.Desc{PMID: 2}, &pdu.Desc{PMID: 3}, &pdu.Desc{PMID: 4}, &pdu.Desc{PMID: 5})
	checkIDs(t, receive(t, second), 4, 5)
	checkIDs(t, receive(t, first), 1, 2, 3)
}

// An agent that is late with one of several replies owes that one and those behind it.
func TestSeveralLate(t *testing.T) { forEachPair(t, testSeveralLate) }

func testSeveralLate(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	call := sendSeveral(t, c, r, 50*time.Millisecond, 1, 2, 3)
	writePDUs(t, there, &pdu.Desc{PMID: 1})
	if _, err := call.Recv(nil); err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	writePDUs(t, there, &pdu.Desc{PMID: 2}, &pdu.Error{Code: pdu.ErrnoPMID})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
	next := sendSeveral(t, c, r, 0, 4)
	writePDUs(t, there, &pdu.Desc{PMID: 4})
	checkIDs(t, receive(t, next), 4)
}

// An agent that is not ready in the middle of several requests owes the replies to the rest.
func TestSeveralNotReady(t *testing.T) { forEachPair(t, testSeveralNotReady) }

func testSeveralNotReady(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	call := sendSeveral(t, c, r, 0, 1, 2, 3)
	writePDUs(t, there, &pdu.Desc{PMID: 1}, &pdu.Error{Code: pdu.ErrnoNotReady})
	if _, err := call.Recv(nil); err != transport.ErrNotReady {
		t.Fatalf("got %v, want %v", err, transport.ErrNotReady)
	}
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoReady}, &pdu.Desc{PMID: 2}, &pdu.Desc{PMID: 3})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
	next := sendSeveral(t, c, r, 0, 4)
	writePDUs(t, there, &pdu.Desc{PMID: 4})
	checkIDs(t, receive(t, next), 4)
}
