package transport_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Worker does not keep Calls that are over, even if the Agent never returns from
// one: a Call is part of the memory of a whole request.
func TestCallsAreNotKept(t *testing.T) { synctest.Test(t, testCallsAreNotKept) }

func testCallsAreNotKept(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	defer close(a.open)
	do := func(item int, timeout time.Duration, want error) weak.Pointer[transport.Call] {
		call := request(0, item, timeout)
		if _, err := transport.Do(w, call, nil); err != want {
			t.Errorf("got %v, want %v", err, want)
		}
		return weak.Make(call)
	}
	over := []weak.Pointer[transport.Call]{
		do(plain, 0, nil),
		do(plain, 0, nil),
		do(blocks, 10*time.Millisecond, transport.ErrLate),
	}
	<-a.entered
	runtime.GC()
	for i := range over {
		if over[i].Value() != nil {
			t.Errorf("call %d is kept", i)
		}
	}
	runtime.KeepAlive(w)
}

// wordy is an Agent with one long value.
type wordy struct {
	agents.Agent
	value string
}

func (a wordy) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		w.Begin(id)
		w.String(-1, a.value)
	}
	return nil
}

// A Worker keeps the memory of few large replies, however many it had at a time.
func TestLargeRepliesAreNotKept(t *testing.T) {
	const size = 900 << 10
	w := local(t, wordy{newAnswer(), strings.Repeat("x", size)})
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(plain)}})
	if err != nil {
		t.Fatal(err)
	}
	before := testutil.LiveHeap()
	func() {
		var replies []transport.Reply
		for range 8 {
			r, err := w.Send(&transport.Call{Req: req, Batched: true})
			if err != nil {
				t.Fatal(err)
			}
			replies = append(replies, r)
		}
		for _, r := range replies {
			if b, err := r.Recv(nil); err != nil || len(b) < size {
				t.Fatalf("got %d bytes, %v", len(b), err)
			}
		}
	}()
	if kept := testutil.LiveHeap() - before; kept > 3*size {
		t.Errorf("%d bytes are kept after replies of %d", kept, size)
	}
	runtime.KeepAlive(w)
}
