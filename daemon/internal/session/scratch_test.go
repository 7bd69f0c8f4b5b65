package session

import (
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fetch asks the agent first that usually takes longest; others stay in order,
// and one that is not known comes last.
func TestSlowestFirst(t *testing.T) {
	var list []*agentset.Agent
	for domain, usual := range map[int]time.Duration{1: 5, 2: 0, 3: 70, 4: 5, 5: 8} {
		a, now := new(agentset.Set).NewAgent(&pmcdconf.Agent{Domain: domain}), time.Now()
		a.RequestAnswered(now, now, now.Add(usual))
		list = append(list, a)
	}
	w := &requestScratch{routes: routes.New(list, nil)}
	for range 2 { // a scratch is used again
		for _, domain := range []int{4, 9, 1, 2, 3, 5, 511} {
			p := w.sub(domain)
			p.fetch.PMIDs = append(p.fetch.PMIDs, pdu.NewPMID(domain, 0, 0))
		}
		var got []int
		for _, p := range w.slowestFirst() {
			got = append(got, p.fetch.PMIDs[0].Domain())
		}
		if want := []int{3, 5, 4, 1, 9, 2, 511}; !slices.Equal(got, want) {
			t.Errorf("asked in the order %v, want %v", got, want)
		}
		w.reset()
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
