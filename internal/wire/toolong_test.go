package wire_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// longReply returns a DESC PDU of n bytes.
func longReply(n int) []byte {
	b := make([]byte, n)
	binary.BigEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint32(b[4:], uint32(pdu.TypeDesc))
	return b
}

// A reply that is too long is PM_ERR_TOOBIG, whatever its pieces are, and the one after
// it is for the next request. It takes no memory.
func TestLongReply(t *testing.T) { forEachPair(t, testLongReply) }

func testLongReply(t *testing.T, pair pairFunc) {
	testutil.CheckGoroutines(t)
	const limit, depth = 5000, 8
	states := make(chan transport.State, 10)
	c, there, r := fakePMDA(t, pair, wire.Options{Depth: depth, MaxReply: limit, OnState: func(s transport.State) { states <- s }})
	call := func(timeout time.Duration) transport.Reply {
		t.Helper()
		req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: metricID})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := c.Send(&transport.Call{Req: req, Timeout: timeout, MayBlock: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		return reply
	}
	write := func(b []byte) {
		if _, err := there.Write(b); err != nil {
			t.Error(err)
		}
	}
	recv := func(reply transport.Reply, code pdu.Errno) {
		t.Helper()
		b, err := reply.Recv([]byte("x"))
		if err != nil || string(b[:1]) != "x" {
			t.Fatalf("got %q, %v", b, err)
		}
		var e pdu.Error
		switch _, typ, _ := pdu.Header(b[1:]); {
		case code == 0 && typ != pdu.TypeDesc:
			t.Errorf("got %v, want DESC", typ)
		case code != 0:
			if _, err := pdu.ParseInto(b[1:], &e); err != nil || e.Code != code {
				t.Errorf("got %v, %v; want %v", e.Code, err, code)
			}
		}
	}
	desc, _ := pdu.Append(nil, 0, &pdu.Desc{PMID: metricID, InDom: pdu.NoInDom})
	// After a slow reply a Client sends one request at a time, and one more after each
	// quick one. The calls below need all of depth, however slow this machine is.
	replyQuickly := func() {
		for quick := 0; quick < depth; quick++ {
			before := time.Now()
			reply := call(0)
			write(desc)
			recv(reply, 0)
			if time.Since(before) > 5*time.Millisecond {
				quick = -1
			}
		}
	}
	for _, n := range []int{limit, limit + 1, limit + 4, 4096 * 3, 70000, 1 << 20} {
		// Other replies follow at once, or the long one is in pieces.
		for _, cut := range []int{0, pdu.HeaderLen - 1, pdu.HeaderLen, n - 1, n} {
			replyQuickly()
			replies := []transport.Reply{call(0), call(0), call(0)}
			b := append(append(append([]byte(nil), desc...), longReply(n)...), desc...)
			cut += len(desc)
			go func() {
				write(b[:cut])
				runtime.Gosched()
				write(b[cut:])
			}()
			recv(replies[0], 0)
			if n == limit {
				recv(replies[1], 0)
			} else {
				recv(replies[1], pdu.ErrnoTooBig)
			}
			recv(replies[2], 0)
		}
	}

	const huge = 32 << 20
	reply := call(0)
	head := longReply(huge)[:pdu.HeaderLen]
	piece := make([]byte, 64<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		write(head)
		for left := huge - len(head); left > 0; left -= len(piece) {
			write(piece[:min(left, len(piece))])
		}
	}()
	recv(reply, pdu.ErrnoTooBig)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for a reply that is not kept", n)
	}

	// The agent is late in the middle of it, and ready after it.
	reply = call(20 * time.Millisecond)
	write(longReply(limit * 3)[:limit*2])
	if _, err := reply.Recv(nil); err != transport.ErrLate {
		t.Fatalf("got %v, want ErrLate", err)
	}
	if s := <-states; s != transport.Late {
		t.Errorf("%v, want late", s)
	}
	write(make([]byte, limit))
	if s := <-states; s != transport.Ready {
		t.Errorf("%v, want ready", s)
	}
	testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
	reply = call(0)
	write(desc)
	recv(reply, 0)
}
