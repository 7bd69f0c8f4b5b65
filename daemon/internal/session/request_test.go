package session

import (
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/calls"
)

// A session does not get an input buffer of another one that would have to be accounted
// for.
func TestLargeInputIsNotKept(t *testing.T) {
	for _, n := range []int{freeRequest, freeRequest + 1, 64 << 10} {
		r := &request{in: make([]byte, 0, n)}
		r.clear()
		if kept := cap(r.in); kept > freeRequest || (n <= freeRequest) != (kept == n) {
			t.Errorf("%d bytes are kept of %d", kept, n)
		}
	}
}

// A session that asks for little does not get the memory that another has
// needed, and one that needs it gets it for its next turns.
func TestGrownRequestIsKeptApart(t *testing.T) {
	var big, little requestHistory
	r := big.acquire()
	r.calls.Out = make([]byte, 2*calls.MaxNormal)
	big.release(r)
	if !r.large || big.turns != largeTurns {
		t.Fatalf("after much: large is %v, for %d turns", r.large, big.turns)
	}
	for range 100 {
		v := little.acquire()
		if v == r || v.large {
			t.Fatal("a session that asks for little has got a request that has grown")
		}
		little.release(v)
	}
	if little.turns != 0 {
		t.Errorf("after little: %d turns with a large one", little.turns)
	}
	for i := range largeTurns {
		v := big.acquire() // r, unless the pool has lost it
		big.release(v)
		if want := largeTurns - 1 - i; big.turns != uint8(want) {
			t.Fatalf("%d turns left, want %d", big.turns, want)
		}
	}
	if v := big.acquire(); v.large {
		t.Error("a large one for ever")
	}
}
