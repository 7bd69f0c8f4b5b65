package wire_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// CheckIdle notices the end of an idle socket, and has no effect on a live one.
func TestCheckIdle(t *testing.T) {
	testutil.CheckGoroutines(t)
	c, there, r := fakePMDA(t, socketPair, wire.Options{})
	request := func() {
		t.Helper()
		call := sendDescReqTimeout(t, c, 10*time.Second, false)
		c.CheckIdle()
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		writePDUs(t, there, &pdu.Desc{PMID: metricID})
		c.CheckIdle()
		if _, err := call.Recv(nil); err != nil {
			t.Fatal(err)
		}
		c.CheckIdle()
	}
	request()
	writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoReady}) // what is unread is no end
	request()
	if err := c.Err(); err != nil {
		t.Fatalf("ended while its peer is there: %v", err)
	}
	there.Close()
	testutil.Eventually(t, "the end is noticed", func() bool { c.CheckIdle(); return c.Err() != nil })
	if !errors.Is(c.Err(), io.EOF) {
		t.Errorf("Err() = %v, want io.EOF", c.Err())
	}
	if p, ok := c.Pending(); ok {
		t.Errorf("an idle agent owes %+v", p)
	}
	c.CheckIdle() // of one that has ended
}

// Pending returns the request that an agent has not answered, also after the end of
// the agent. A call has the time that the agent took.
func TestPending(t *testing.T) { forEachPair(t, testPending) }

func testPending(t *testing.T, pair pairFunc) {
	testutil.CheckGoroutines(t)
	c, there, _ := fakePMDA(t, pair, wire.Options{})
	checkPending := func(when string, want bool) {
		t.Helper()
		p, ok := c.Pending()
		if ok != want || ok && (p.Type != pdu.TypeDescReq || p.Client != 7 || time.Since(p.Since) > time.Minute) {
			t.Errorf("%s: Pending() = %+v, %v, want %v", when, p, ok, want)
		}
	}
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: metricID})
	if err != nil {
		t.Fatal(err)
	}
	call := &transport.Call{MayBlock: true, Req: req, Origin: agents.Origin{Client: 7}, Timeout: testutil.Hangs}
	before := time.Now()
	reply, err := c.Send(call)
	if err != nil {
		t.Fatal(err)
	}
	checkPending("sent", true)
	writePDUs(t, there, &pdu.Desc{PMID: metricID})
	if _, err := reply.Recv(nil); err != nil {
		t.Fatal(err)
	}
	if call.Began.Before(before) || call.Done.Before(call.Began) || call.Done.After(time.Now()) {
		t.Errorf("sent after %v, began %v, done %v", before, call.Began, call.Done)
	}
	checkPending("answered", false)

	call.Timeout = 20 * time.Millisecond
	if _, err := transport.Do(c, call, nil); err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	checkPending("late", true)
	writePDUs(t, there, &pdu.Desc{PMID: metricID})
	testutil.Eventually(t, "ready again", func() bool { return c.State() == transport.Ready })
	checkPending("ready again", false)

	call.Timeout = 10 * time.Second
	if reply, err = c.Send(call); err != nil {
		t.Fatal(err)
	}
	there.Close()
	if _, err := reply.Recv(nil); err == nil {
		t.Error("a reply after the stream was closed")
	}
	checkPending("dead", true)
}

// A process that has ended replies no more, even if a child of it has the pipe
// open. Callers do not wait for their timeout, or for ever.
func TestPeerGonePipeStillOpen(t *testing.T) { forEachPair(t, testPeerGonePipeStillOpen) }

func testPeerGonePipeStillOpen(t *testing.T, pair pairFunc) {
	gone := errors.New("exit 3")
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, c *wire.Client, there wire.Conn) // until the process ends
	}{
		{"in a request", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := sendDescReqTimeout(t, c, time.Minute, false)
			time.AfterFunc(20*time.Millisecond, func() { c.PeerGone(gone) })
			if _, err := call.Recv(nil); err != gone {
				t.Errorf("Recv: %v, want %v", err, gone)
			}
		}},
		{"before the answer is waited for", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := sendDescReqTimeout(t, c, time.Minute, false)
			c.PeerGone(gone)
			if _, err := call.Recv(nil); err != gone {
				t.Errorf("Recv: %v, want %v", err, gone)
			}
		}},
		{"late", func(t *testing.T, c *wire.Client, _ wire.Conn) {
			call := sendDescReqTimeout(t, c, 20*time.Millisecond, false)
			if _, err := call.Recv(nil); err != transport.ErrLate {
				t.Fatalf("Recv: %v, want %v", err, transport.ErrLate)
			}
			c.PeerGone(gone)
		}},
		{"not ready", func(t *testing.T, c *wire.Client, there wire.Conn) {
			call := sendDescReqTimeout(t, c, time.Minute, false)
			writePDUs(t, there, &pdu.Error{Code: pdu.ErrnoNotReady})
			if _, err := call.Recv(nil); err != transport.ErrNotReady {
				t.Fatalf("Recv: %v, want %v", err, transport.ErrNotReady)
			}
			c.PeerGone(gone)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testutil.CheckGoroutines(t)
			c, there, _ := fakePMDA(t, pair, wire.Options{})
			tt.prepare(t, c, there)
			select {
			case <-c.Done():
			case <-time.After(testutil.Hangs):
				t.Fatal("still there")
			}
			if c.Err() != gone {
				t.Errorf("Err() = %v, want %v", c.Err(), gone)
			}
		})
	}
}

// Close ends the wait for a reply, with direct reads and with the poller.
func TestCloseDuringCall(t *testing.T) { forEachPair(t, testCloseDuringCall) }

func testCloseDuringCall(t *testing.T, pair pairFunc) {
	testutil.CheckGoroutines(t)
	c, _, r := fakePMDA(t, pair, wire.Options{})
	call := sendDescReqTimeout(t, c, 0, false)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	if _, err := call.Recv(nil); err != transport.ErrClosed {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

// A timeout is kept whether it is shorter or longer than a direct read waits. A
// reply that comes later is discarded.
func TestTimeouts(t *testing.T) { forEachPair(t, testTimeouts) }

func testTimeouts(t *testing.T, pair pairFunc) {
	for _, timeout := range []time.Duration{time.Millisecond, 4 * time.Millisecond, 30 * time.Millisecond} {
		c, there, r := fakePMDA(t, pair, wire.Options{})
		for range 2 {
			began := time.Now()
			call := sendDescReqTimeout(t, c, timeout, false)
			if _, err := call.Recv(nil); err != transport.ErrLate {
				t.Errorf("%v: got %v, want %v", timeout, err, transport.ErrLate)
			}
			if waited := time.Since(began); waited < timeout {
				t.Errorf("%v: waited for %v only", timeout, waited)
			}
			r.Next()
			writePDUs(t, there, &pdu.Desc{PMID: 1})
			testutil.Eventually(t, "ready again", func() bool { return c.State() == transport.Ready })
		}
		call := sendDescReq(t, c, metricID)
		r.Next()
		writePDUs(t, there, &pdu.Desc{PMID: metricID})
		b, err := call.Recv(nil)
		var d pdu.Desc
		if err != nil {
			t.Fatal(err)
		}
		if pdu.ParseInto(b, &d); d.PMID != metricID {
			t.Errorf("%v: then the answer is %v", timeout, d.PMID)
		}
	}
}

// Calls with and without MayBlock alternate, and each gets its own reply. Bytes in
// the stream are not lost when it switches between direct reads and the poller.
func TestDirectAndPolledReads(t *testing.T) {
	testutil.CheckGoroutines(t)
	c, there, r := fakePMDA(t, pipePair, wire.Options{Depth: 4})
	go func() {
		for {
			b, err := r.Next()
			if err != nil {
				return
			}
			var m pdu.DescReq
			pdu.ParseInto(b, &m)
			answer, _ := pdu.Append(nil, 0, &pdu.Desc{PMID: m.PMID})
			for _, half := range [][]byte{answer[:len(answer)/2], answer[len(answer)/2:]} {
				if _, err := there.Write(half); err != nil {
					return
				}
			}
		}
	}()
	for i := range 2000 {
		var calls [3]transport.Reply
		for j := range calls[:1+i%3] {
			req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(1, j, i%1024)})
			if err != nil {
				t.Fatal(err)
			}
			call := &transport.Call{Req: req, Timeout: testutil.Hangs, Batched: i%3 > 0, MayBlock: (i+j)%2 == 0}
			if calls[j], err = c.Send(call); err != nil {
				t.Fatal(err)
			}
		}
		for j, call := range calls[:1+i%3] {
			b, err := call.Recv(nil)
			if err != nil {
				t.Fatal(err)
			}
			var d pdu.Desc
			if _, err := pdu.ParseInto(b, &d); err != nil || d.PMID != pdu.NewPMID(1, j, i%1024) {
				t.Fatalf("got %v, %v", d.PMID, err)
			}
		}
	}
}
