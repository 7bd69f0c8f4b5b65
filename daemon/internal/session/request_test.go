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
// needed, and one that needs it gets it the next times.
func TestGrownRequestIsKeptApart(t *testing.T) {
	var big, little requestHistory
	r := big.acquire()
	r.calls.Out = make([]byte, 2*calls.MaxNormal)
	big.release(r)
	if !r.large || big.largeUses != largeUses {
		t.Fatalf("after much: large is %v, for %d times", r.large, big.largeUses)
	}
	for range 100 {
		v := little.acquire()
		if v == r || v.large {
			t.Fatal("a session that asks for little has got a request that has grown")
		}
		little.release(v)
	}
	if little.largeUses != 0 {
		t.Errorf("after little: %d more times a large one", little.largeUses)
	}
	for i := range largeUses {
		v := big.acquire() // r, unless the pool has lost it
		big.release(v)
		if want := largeUses - 1 - i; big.largeUses != uint8(want) {
			t.Fatalf("%d times left, want %d", big.largeUses, want)
		}
	}
	if v := big.acquire(); v.large {
		t.Error("a large one for ever")
	}
}
