package session

import (
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fetch asks the agent first that usually takes longest; others stay in order,
// and one that is not known comes last. Domains without an agent have one subrequest.
func TestSlowestFirst(t *testing.T) {
	var list []*agentset.Agent
	for domain, usual := range map[int]time.Duration{1: 5, 2: 0, 3: 70, 4: 5, 5: 8} {
		a, now := new(agentset.Set).NewAgent(&pmcdconf.Agent{Domain: domain}), time.Now()
		a.RequestAnswered(now, now, now.Add(usual))
		list = append(list, a)
	}
	w := &requestScratch{routes: routes.New(list, nil)}
	for range 2 { // a scratch is used again
		for _, domain := range []int{4, 9, 1, 2, 3, 5, 511, 10} {
			p := w.sub(domain)
			p.fetch.PMIDs = append(p.fetch.PMIDs, pdu.NewPMID(domain, 0, 0))
		}
		var got []int
		for _, p := range w.slowestFirst() {
			for _, id := range p.fetch.PMIDs {
				got = append(got, id.Domain())
			}
			if p.absent != (p.fetch.PMIDs[0].Domain() == 9) {
				t.Errorf("domain %d without an agent: %v", p.fetch.PMIDs[0].Domain(), p.absent)
			}
		}
		if want := []int{3, 5, 4, 1, 9, 511, 10, 2}; !slices.Equal(got, want) {
			t.Errorf("asked in the order %v, want %v", got, want)
		}
		w.reset()
	}
}

// A session does not get an input buffer of another one that would have to be accounted
// for.
func TestLargeInputIsNotKept(t *testing.T) {
	for _, n := range []int{freeRequest, freeRequest + 1, 64 << 10} {
		w := &requestScratch{in: make([]byte, 0, n)}
		w.clear()
		if kept := cap(w.in); kept > freeRequest || (n <= freeRequest) != (kept == n) {
			t.Errorf("%d bytes are kept of %d", kept, n)
		}
	}
}

// A session that asks for little does not get the memory that another has
// needed, and one that needs it gets it for its next turns.
func TestGrownScratchIsKeptApart(t *testing.T) {
	var big, little scratchHistory
	w := big.acquire()
	w.out = make([]byte, 2*maxNormal)
	big.release(w)
	if !w.large || big.turns != largeTurns {
		t.Fatalf("after much: large is %v, for %d turns", w.large, big.turns)
	}
	for range 100 {
		v := little.acquire()
		if v == w || v.large {
			t.Fatal("a session that asks for little has got a scratch that has grown")
		}
		little.release(v)
	}
	if little.turns != 0 {
		t.Errorf("after little: %d turns with a large one", little.turns)
	}
	for i := range largeTurns {
		v := big.acquire() // w, unless the pool has lost it
		big.release(v)
		if want := largeTurns - 1 - i; big.turns != uint8(want) {
			t.Fatalf("%d turns left, want %d", big.turns, want)
		}
	}
	if v := big.acquire(); v.large {
		t.Error("a large one for ever")
	}
}

// A session that waits for its turn at an agent has no large buffers for replies. Afterwards
// it has one again if there is one.
func TestBuffersBeforeTurn(t *testing.T) {
	w := &requestScratch{
		slot: slots.New().Slot(nil),
		out:  append(make([]byte, 0, 2*maxNormal), "head"...),
		ans:  make([]byte, 2*maxNormal),
		subs: []subrequest{{reply: make([]byte, 2*maxKept)}, {reply: make([]byte, 0, maxNormal)}},
	}
	w.result.Reset(w.out, 0)
	waiter{w}.BeforeWait(false)
	if n := max(cap(w.out), cap(w.ans), w.result.Cap(), cap(w.subs[0].reply)); n > maxNormal || string(w.out) != "head" || len(w.ans) != 0 {
		t.Errorf("%d bytes in a buffer, %q, %d", n, w.out, len(w.ans))
	}
	if n := cap(w.subs[1].reply); n != maxNormal {
		t.Errorf("a buffer that is not large has %d bytes, want %d", n, maxNormal)
	}
	if w.lent != 2 {
		t.Errorf("%d buffers were lent, want 2", w.lent)
	}
	for range 2 { // the pool may have lost one
		if w.out = w.borrow(w.out); string(w.out) != "head" {
			t.Fatalf("%q", w.out)
		}
	}
	if b := w.borrow(make([]byte, 1)); cap(b) > 8 || w.lent != 0 {
		t.Errorf("a buffer of %d bytes in place of none", cap(b))
	}
}
