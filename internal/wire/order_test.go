package wire_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// fakePMDA returns a Client and the PMDA's end of its stream, after the version
// exchange. The test acts as the PMDA: it reads requests from r and writes replies
// to there.
func fakePMDA(t *testing.T, pair pairFunc, opt wire.Options) (c *wire.Client, there wire.Conn, r *pdu.Reader) {
	t.Helper()
	here, there := pair(t)
	writePDUs(t, there, &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(pdu.FeatureAuth)}})
	c, err := wire.Dial(t.Context(), here, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); there.Close() })
	r = pdu.NewReader(there, 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	return c, there, r
}

func writePDUs(t *testing.T, w io.Writer, ms ...pdu.Message) {
	t.Helper()
	var b []byte
	for _, m := range ms {
		b, _ = pdu.Append(b, 0, m)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

// sendDescReq sends a DESC_REQ.
func sendDescReq(t *testing.T, c transport.Transport, id pdu.PMID) transport.Reply {
	t.Helper()
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: id})
	r, err := c.Send(&transport.Call{MayBlock: true, Req: req, Timeout: testutil.Hangs})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An agent says that it is not ready before it sees a request, is ready again
// and then answers the request. The next request must not get that answer.
func TestNotReadyCrossesRequest(t *testing.T) { forEachPair(t, testNotReadyCrossesRequest) }

func testNotReadyCrossesRequest(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoNotReady})
	if _, err := sendDescReq(t, c, 111).Recv(nil); err != transport.ErrNotReady {
		t.Fatal(err)
	}
	r.Next()
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoReady}, &pdu.Desc{PMID: 111})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
	next := sendDescReq(t, c, 222)
	r.Next()
	writePDUs(t, there, &pdu.Desc{PMID: 222})
	b, err := next.Recv(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d pdu.Desc
	if pdu.ParseInto(b, &d); d.PMID != 222 {
		t.Errorf("asked for 222, got %d", d.PMID)
	}
}

// NOTREADY of a late agent may be its reply, so the agent is ready without another one.
func TestNotReadyWhileLate(t *testing.T) { forEachPair(t, testNotReadyWhileLate) }

func testNotReadyWhileLate(t *testing.T, pair pairFunc) {
	c, there, _ := fakePMDA(t, pair, wire.Options{})
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if _, err := transport.Do(c, &transport.Call{Req: req, Timeout: time.Millisecond}, nil); err != transport.ErrLate {
		t.Fatal(err)
	}
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoNotReady})
	testutil.Eventually(t, "not ready", func() bool { return c.State() == transport.NotReady })
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoReady})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
}

// A caller that waits to be admitted gives up at its own timeout, also while it reads
// the reply of another call that has more time.
func TestTimeoutWhileReadingForAnother(t *testing.T) {
	forEachPair(t, testTimeoutWhileReadingForAnother)
}

func testTimeoutWhileReadingForAnother(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	first, err := c.Send(&transport.Call{MayBlock: true, Req: req, Batched: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(&transport.Call{MayBlock: true, Req: req, Timeout: 20 * time.Millisecond}); err != transport.ErrLate {
		t.Errorf("got %v, want %v", err, transport.ErrLate)
	}
	r.Next()
	writePDUs(t, there, &pdu.Desc{PMID: 1})
	if _, err := first.Recv(nil); err != nil {
		t.Errorf("the other: %v", err)
	}
}

// A caller that waits to be admitted gives up at its own timeout, also while it reads an
// overdue reply of which a part has come. The agent is not late because of it.
func TestTimeoutWhileReadingOverdueReply(t *testing.T) {
	forEachPair(t, testTimeoutWhileReadingOverdueReply)
}

func testTimeoutWhileReadingOverdueReply(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	call := &transport.Call{MayBlock: true, Req: req, Batched: true, Timeout: time.Second}
	first, err := c.Send(call)
	if err != nil {
		t.Fatal(err)
	}
	r.Next()
	reply, _ := pdu.Append(nil, 0, &pdu.Desc{PMID: 1})
	there.Write(reply[:8])
	<-time.After(call.Timeout) // while the first caller is busy elsewhere
	if _, err := c.Send(&transport.Call{MayBlock: true, Req: req, Timeout: 20 * time.Millisecond}); err != transport.ErrLate {
		t.Errorf("got %v, want %v", err, transport.ErrLate)
	}
	if s := c.State(); s != transport.Ready {
		t.Errorf("the agent is %v", s)
	}
	there.Write(reply[8:])
	if _, err := first.Recv(nil); err != nil {
		t.Errorf("the first caller: %v", err)
	}
}

// Notices to an agent that does not read are merged: each client takes the memory
// of one notice.
func TestNoticesAreMerged(t *testing.T) { forEachPair(t, testNoticesAreMerged) }

func testNoticesAreMerged(t *testing.T, pair pairFunc) {
	c, there, _ := fakePMDA(t, pair, wire.Options{})
	const each = 200
	for range 20_000 {
		c.Notify(transport.Notice{Client: 1, End: true, Attrs: []pdu.Attr{{Code: pdu.AttrContainer, Value: make([]byte, each)}}})
	}
	c.Close()
	sent, err := io.Copy(io.Discard, there)
	// The socket holds some hundreds of kB; all notices would be 4 MB.
	if sent > 2<<20 {
		t.Errorf("%d bytes, %v", sent, err)
	}
}

// An agent that answers at once is not late, even if its reply does not fit in the
// pipe and the caller does not read until after the timeout.
func TestLargeReplyWhileCallerIsBusy(t *testing.T) { forEachPair(t, testLargeReplyWhileCallerIsBusy) }

func testLargeReplyWhileCallerIsBusy(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	begun := make(chan struct{})
	go func() {
		r.Next()
		b, _ := pdu.Append(nil, 0, &pdu.Text{Text: strings.Repeat("x", 1<<20)})
		there.Write(b[:100])
		close(begun)
		there.Write(b[100:])
	}()
	req, _ := pdu.Append(nil, 0, &pdu.TextReq{Ident: 1, Kind: pdu.TextPMID | pdu.TextHelp})
	call := &transport.Call{MayBlock: true, Req: req, Batched: true, Timeout: time.Second}
	reply, err := c.Send(call)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	<-time.After(call.Timeout) // the caller is busy
	if _, err := reply.Recv(nil); err != nil {
		t.Errorf("got %v", err)
	}
}

// If a reply was still unread when the process ended, the Client ends after it.
func TestPeerGoneWhileBusy(t *testing.T) { forEachPair(t, testPeerGoneWhileBusy) }

func testPeerGoneWhileBusy(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{})
	call := sendDescReq(t, c, 1)
	r.Next()
	gone := errors.New("exit 3")
	c.PeerGone(gone)
	writePDUs(t, there, &pdu.Desc{PMID: 1})
	if _, err := call.Recv(nil); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); err != gone {
		t.Errorf("ended by %v, want %v", err, gone)
	}
}

// Notices that a failed Send would have sent are sent before the next request.
func TestRefusedSendKeepsNotices(t *testing.T) { forEachPair(t, testRefusedSendKeepsNotices) }

func testRefusedSendKeepsNotices(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: 2})
	first := sendDescReq(t, c, 1)
	r.Next()
	c.Notify(transport.Notice{Client: 7, End: true})
	if _, err := c.Send(&transport.Call{MayBlock: true, Req: []byte("no PDU")}); err == nil {
		t.Fatal("sent")
	}
	writePDUs(t, there, &pdu.Desc{PMID: 1})
	if _, err := first.Recv(nil); err != nil {
		t.Fatal(err)
	}
	sendDescReq(t, c, 2)
	b, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, typ, from := pdu.Header(b); typ != pdu.TypeError || from != 7 {
		t.Errorf("%v from %d, want the end of client 7", typ, from)
	}
}

// Several requests are in flight only if the agent is quick and has never been not
// ready, and only if they fit in the pipe while the agent writes.
func TestPipelining(t *testing.T) { forEachPair(t, testPipelining) }

func testPipelining(t *testing.T, pair pairFunc) {
	const quick, slow = 0, 11 * time.Millisecond // more than maxQuickReply
	answerTo := func(t *testing.T, c *wire.Client, there wire.Conn, r *pdu.Reader, after time.Duration, m ...pdu.Message) {
		testutil.Eventually(t, "an answer that is quick on this machine", func() bool {
			req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
			call := &transport.Call{MayBlock: true, Req: req, Timeout: time.Minute}
			reply, err := c.Send(call)
			if err != nil {
				t.Fatal(err)
			}
			r.Next()
			<-time.After(after)
			writePDUs(t, there, m...)
			reply.Recv(nil)
			testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
			return after == slow || call.Done.Sub(call.Began) < slow/2
		})
	}
	notReady, ready, desc := &pdu.Error{Code: pdu.ErrnoNotReady}, &pdu.Error{Code: pdu.ErrnoReady}, &pdu.Desc{PMID: 1}
	small, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	large, _ := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, 2000)})
	for name, test := range map[string]struct {
		before        func(*testing.T, *wire.Client, wire.Conn, *pdu.Reader)
		first, second []byte
		want          error
	}{
		"new":               {nil, small, small, nil},
		"large, then small": {nil, large, small, transport.ErrLate},
		"small, then large": {nil, small, large, transport.ErrLate},
		"after quick answer": {func(t *testing.T, c *wire.Client, there wire.Conn, r *pdu.Reader) {
			answerTo(t, c, there, r, quick, desc)
		}, small, small, nil},
		"after slow answer": {func(t *testing.T, c *wire.Client, there wire.Conn, r *pdu.Reader) {
			answerTo(t, c, there, r, slow, desc)
		}, small, small, transport.ErrLate},
		"after slow and quick answer": {func(t *testing.T, c *wire.Client, there wire.Conn, r *pdu.Reader) {
			answerTo(t, c, there, r, slow, desc)
			answerTo(t, c, there, r, quick, desc)
		}, small, small, nil},
		"after not ready": {func(t *testing.T, c *wire.Client, there wire.Conn, r *pdu.Reader) {
			answerTo(t, c, there, r, quick, notReady, ready)
			answerTo(t, c, there, r, quick, desc)
		}, small, small, transport.ErrLate},
	} {
		t.Run(name, func(t *testing.T) {
			c, there, r := fakePMDA(t, pair, wire.Options{Depth: 2})
			if test.before != nil {
				test.before(t, c, there, r)
			}
			if _, err := c.Send(&transport.Call{MayBlock: true, Req: test.first, Batched: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Send(&transport.Call{MayBlock: true, Req: test.second, Batched: true, Timeout: 20 * time.Millisecond}); err != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// After a slow reply only one request is in flight. Each quick reply permits one more.
func TestPipeliningAfterSlowReply(t *testing.T) {
	const depth, slow = 4, 11 * time.Millisecond // more than maxQuickReply
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	for quick, want := range []int{1, 2, 3, 4, 4} {
		c, there, r := fakePMDA(t, pipePair, wire.Options{Depth: depth})
		answer := func(after time.Duration) (took time.Duration) {
			call := &transport.Call{Req: req}
			reply, err := c.Send(call)
			if err != nil {
				t.Fatal(err)
			}
			r.Next()
			<-time.After(after)
			writePDUs(t, there, &pdu.Desc{PMID: 1})
			if _, err := reply.Recv(nil); err != nil {
				t.Fatal(err)
			}
			return call.Done.Sub(call.Began)
		}
		testutil.Eventually(t, "replies that are quick on this machine", func() bool {
			answer(slow)
			for range quick {
				if answer(0) >= slow/2 {
					return false
				}
			}
			return true
		})
		n := 0
		for ; n <= depth; n++ {
			if _, err := c.Send(&transport.Call{Req: req, Batched: true, Timeout: 20 * time.Millisecond}); err != nil {
				break
			}
		}
		if n != want {
			t.Errorf("%d requests are in flight after a slow and %d quick replies, want %d", n, quick, want)
		}
	}
}

// If an agent that was sent several requests says that it is not ready, all replies
// but one are due, however long they take.
func TestNotReadyCrossesSeveralRequests(t *testing.T) {
	forEachPair(t, testNotReadyCrossesSeveralRequests)
}

func testNotReadyCrossesSeveralRequests(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: 3})
	var calls []transport.Reply
	for range 3 {
		calls = append(calls, sendDescReq(t, c, 111))
		r.Next()
	}
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoNotReady})
	for _, call := range calls {
		if _, err := call.Recv(nil); err != transport.ErrNotReady {
			t.Fatal(err)
		}
	}
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoReady})
	<-time.After(150 * time.Millisecond) // more than one answer is given
	writePDUs(t, there, &pdu.Desc{PMID: 111}, &pdu.Desc{PMID: 111})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
	next := sendDescReq(t, c, 222)
	r.Next()
	writePDUs(t, there, &pdu.Desc{PMID: 222})
	b, err := next.Recv(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d pdu.Desc
	if pdu.ParseInto(b, &d); d.PMID != 222 {
		t.Errorf("asked for 222, got %d", d.PMID)
	}
}

// After the end of a client the agent may have discarded the profile that was sent
// for that client, so the profile is sent again.
func TestProfileOfClosedClient(t *testing.T) { forEachPair(t, testProfileOfClosedClient) }

func testProfileOfClosedClient(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: 2})
	all := transport.NewProfile(new(pdu.Profile))
	req, _ := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{1}})
	fetch := func(client int32) transport.Reply {
		call := &transport.Call{MayBlock: true, Origin: agents.Origin{Client: client}, Profile: all, Req: req, Timeout: testutil.Hangs}
		r, err := c.Send(call)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect := func(want ...string) {
		t.Helper()
		for _, want := range want {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			_, typ, from := pdu.Header(b)
			if got := fmt.Sprint(typ, " ", from); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	first := fetch(1)
	expect("PROFILE 1", "FETCH 1")
	c.Notify(transport.Notice{Client: 1, End: true}) // waits for the next request
	second := fetch(2)
	expect("ERROR 1", "PROFILE 2", "FETCH 2")
	writePDUs(t, there, new(pdu.Result), new(pdu.Result))
	for _, call := range []transport.Reply{first, second} {
		if _, err := call.Recv(nil); err != nil {
			t.Error(err)
		}
	}
}

// The agent writes a large reply and does not read, and the notices before the next
// request do not fit in the buffer. When both requests are late, each side still
// reads what the other writes.
func TestLateInBothDirections(t *testing.T) { forEachPair(t, testLateInBothDirections) }

func testLateInBothDirections(t *testing.T, pair pairFunc) {
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: 2})
	req, _ := pdu.Append(nil, 0, &pdu.TextReq{Ident: 1, Kind: pdu.TextPMID | pdu.TextHelp})
	first, err := c.Send(&transport.Call{MayBlock: true, Req: req, Batched: true, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	const clients = 100_000 // more than a socket holds
	for client := range int32(clients) {
		c.Notify(transport.Notice{Client: client, End: true})
	}
	if _, err := c.Send(&transport.Call{MayBlock: true, Req: req, Timeout: 50 * time.Millisecond}); err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	if _, err := first.Recv(nil); err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	there.SetWriteDeadline(time.Now().Add(testutil.Hangs))
	there.SetReadDeadline(time.Now().Add(testutil.Hangs))
	writePDUs(t, there, &pdu.Text{Text: strings.Repeat("x", 4<<20)})
	for range clients + 1 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	writePDUs(t, there, &pdu.Text{Text: "x"})
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
}
