package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A client hears that names are back when the agent has answered pmcd, in time.
func TestProbe(t *testing.T) {
	a := &namer{tester: tester{domain: 240}}
	r := newRig(t, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond }, map[int]func(wire.Conn){240: serveAgent(a)})
	r.settled()
	c := r.dial()
	key := subtree{240, "d"}
	missing := func() bool {
		r.subtrees.mu.Lock()
		defer r.subtrees.mu.Unlock()
		return r.subtrees.missing[key] != nil
	}
	told := func() uint32 { return r.sessions()[0].notices.Swap(0) }
	refuse := func() ([]string, error) { return nil, pdu.ErrnoPermission }
	a.say(refuse)
	c.traverse("")
	for range 3 {
		if r.probe(key); told() != 0 || !missing() {
			t.Error("told that names are back, of an agent that fails")
		}
	}
	hang := make(chan struct{})
	a.say(func() ([]string, error) { <-hang; return nil, nil })
	if r.probe(key); told() != 0 || !missing() {
		t.Error("told that names are back, of an agent that hangs")
	}
	close(hang)
	testutil.Eventually(t, "ready", func() bool { return r.answers(240) })
	a.say(func() ([]string, error) { return nil, pdu.ErrnoName }) // there are none
	if r.probe(key); told() != uint32(pdu.StateNamesChange) || missing() {
		t.Error("not told that names are back")
	}

	// A root that is no longer there does not fail.
	a.say(refuse)
	c.traverse("")
	r.rewrite("pmns", "root { t u }\nt { one 240:0:1 }\nu { one 241:0:1 }\n")
	r.Reload()
	testutil.Eventually(t, "another name space", func() bool { return c.traverse("") == "t.one u.one" })
	if r.probe(key); missing() {
		t.Error("the root is missed, but is not in the name space")
	}
}

// An agent that fails is asked more and more seldom, and on behalf of no client.
func TestChecksBecomeSeldom(t *testing.T) {
	var s subtrees
	key := subtree{240, "d"}
	c := new(session)
	s.miss(c, key, gapFailed)
	g := s.missing[key]
	now := time.Now()
	if due := s.due(now); due != nil {
		t.Errorf("at once: %v", due)
	}
	for wait := firstCheck; wait < 4*lastCheck; wait *= 2 {
		now = now.Add(min(wait, lastCheck) + time.Second)
		if due := s.due(now); !slices.Equal(due, []subtree{key}) {
			t.Fatalf("after %v: %v", wait, due)
		}
		if due := s.due(now); due != nil {
			t.Fatalf("twice after %v", wait)
		}
		s.again(key, true)
		if got, want := g.wait, min(2*wait, lastCheck); got != want {
			t.Fatalf("after %v: wait %v, want %v", wait, got, want)
		}
		g.next = now.Add(g.wait)
		s.update()
	}
	s.forget(c)
	if due := s.due(now.Add(2 * lastCheck)); due != nil || s.next.Load() != 0 {
		t.Errorf("without a client: %v, next %d", due, s.next.Load())
	}
	s.answered(nil, key)
	if n := s.n.Load(); n != 0 {
		t.Errorf("%d left", n)
	}
}

// A failure is worth a line in the log for each kind, until the agent answers for
// all its roots.
func TestMissingIsLoggedOnce(t *testing.T) {
	var s subtrees
	a, b, all := subtree{240, "a"}, subtree{240, "b"}, subtree{domain: 240}
	c, other := new(session), new(session)
	for i, step := range []struct {
		key  subtree
		kind gapKind
		want bool
	}{
		{a, gapFailed, true}, {a, gapFailed, false}, {b, gapFailed, false}, {all, gapDown, true},
		{subtree{domain: 241}, gapDown, true}, {all, gapDown, false}, {a, gapLate, true}, {all, gapFenced, true},
	} {
		if got := s.miss(c, step.key, step.kind); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	s.miss(other, a, gapFailed)
	s.answered(c, a) // b fails still
	if got := other.notices.Load(); got != uint32(pdu.StateNamesChange) {
		t.Errorf("a client that missed the names is told %d", got)
	}
	if got := c.notices.Swap(0); got != uint32(pdu.StateNamesChange) { // of what the agent did not tell as it was down
		t.Errorf("the client that has asked is told %d", got)
	}
	if s.missing[all] != nil {
		t.Error("an agent that has answered is down")
	}
	if s.miss(c, a, gapFailed) {
		t.Error("logged again, though it has not answered for b")
	}
	s.answered(c, a)
	s.answered(c, b)
	if got := c.notices.Load(); got != 0 {
		t.Errorf("the client that has asked, and has the names, is told %d", got)
	}
	if !s.miss(c, a, gapFailed) {
		t.Error("not logged again")
	}
}

// A client that has gone misses nothing, and an agent that is down stays one to
// look for.
func TestClientsOfMissingSubtree(t *testing.T) {
	r := newRig(t, nil, nil)
	r.settled()
	host{r.Daemon}.SetFenced(240, true)
	c := r.dial()
	c.traverse("")
	missing := func() int {
		r.subtrees.mu.Lock()
		defer r.subtrees.mu.Unlock()
		return len(r.subtrees.missing[subtree{domain: 240}].clients)
	}
	if n := missing(); n != 1 {
		t.Errorf("%d clients miss the names, want 1", n)
	}
	later := time.Now().Add(firstCheck)
	for i := range 3 {
		r.checkNames(later)
		if next := r.subtrees.next.Load(); next == 0 {
			t.Errorf("no check after check %d", i)
		}
		later = later.Add(2 * firstCheck)
	}
	c.conn.Close()
	testutil.Eventually(t, "no client misses the names", func() bool { return missing() == 0 })
	if next := r.subtrees.next.Load(); next != 0 {
		t.Error("a check is due although no client misses names")
	}
}
