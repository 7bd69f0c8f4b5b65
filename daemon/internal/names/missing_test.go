package names

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// An agent that fails is asked more and more seldom, and on behalf of no client.
func TestChecksBecomeSeldom(t *testing.T) {
	var s Missing
	key := subtree{240, "d"}
	c := new(clients.Client)
	s.miss(c, key, failed)
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
	s.Forget(c)
	if due := s.due(now.Add(2 * lastCheck)); due != nil || s.next.Load() != nil {
		t.Errorf("without a client: %v, next %v", due, s.next.Load())
	}
	s.answered(nil, key)
	if n := s.n.Load(); n != 0 {
		t.Errorf("%d left", n)
	}
}

// A failure is worth a line in the log for each kind, until the agent answers for
// all its roots.
func TestMissingIsLoggedOnce(t *testing.T) {
	var s Missing
	a, b, all := subtree{240, "a"}, subtree{240, "b"}, subtree{domain: 240}
	c, other := new(clients.Client), new(clients.Client)
	for i, step := range []struct {
		key  subtree
		why  reason
		want bool
	}{
		{a, failed, true}, {a, failed, false}, {b, failed, false}, {all, down, true},
		{subtree{domain: 241}, down, true}, {all, down, false}, {a, late, true}, {all, fenced, true},
	} {
		if got := s.miss(c, step.key, step.why); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	s.miss(other, a, failed)
	s.answered(c, a) // b fails still
	if got := other.Notices.Load(); got != uint32(pdu.StateNamesChange) {
		t.Errorf("a client that missed the names is told %d", got)
	}
	if got := c.Notices.Swap(0); got != uint32(pdu.StateNamesChange) { // of what the agent did not tell as it was down
		t.Errorf("the client that has asked is told %d", got)
	}
	if s.missing[all] != nil {
		t.Error("an agent that has answered is down")
	}
	if s.miss(c, a, failed) {
		t.Error("logged again, though it has not answered for b")
	}
	s.answered(c, a)
	s.answered(c, b)
	if got := c.Notices.Load(); got != 0 {
		t.Errorf("the client that has asked, and has the names, is told %d", got)
	}
	if !s.miss(c, a, failed) {
		t.Error("not logged again")
	}
}

// Clients are told that names are back when the agent has answered pmcd.
func TestProbe(t *testing.T) {
	a := new(agentsettest.Namer)
	tree, err := pmnsload.Parse("pmns", strings.NewReader("root { d 240:*:* }\n"), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := agentsettest.Start(t, 240, a, tree)
	s := Missing{Routes: func() *routes.Table { return table }, Timeout: func() time.Duration { return 100 * time.Millisecond }}
	key, c := subtree{240, "d"}, new(clients.Client)
	notified := func() uint32 { return c.Notices.Swap(0) }
	refuse := func() ([]string, error) { return nil, pdu.ErrnoPermission }
	s.miss(c, key, failed)
	a.TraverseFunc = refuse
	for range 3 {
		if s.probe(key); notified() != 0 || s.missing[key] == nil {
			t.Error("told that names are back, of an agent that fails")
		}
	}
	hang := make(chan struct{})
	a.TraverseFunc = func() ([]string, error) { <-hang; return nil, nil }
	if s.probe(key); notified() != 0 || s.missing[key] == nil {
		t.Error("told that names are back, of an agent that hangs")
	}
	close(hang)
	testutil.Eventually(t, "ready", func() bool { return s.answers(240) })
	a.TraverseFunc = func() ([]string, error) { return nil, pdu.ErrnoName } // there are none
	if s.probe(key); notified() != uint32(pdu.StateNamesChange) || s.missing[key] != nil {
		t.Error("not told that names are back")
	}

	// A root that is no longer there does not fail.
	a.TraverseFunc = refuse
	s.miss(c, key, failed)
	if tree, err = pmnsload.Parse("pmns", strings.NewReader("root { u }\nu { one 241:0:1 }\n"), pmnsload.Options{}); err != nil {
		t.Fatal(err)
	}
	table = table.WithTree(tree)
	if s.probe(key); s.missing[key] != nil {
		t.Error("the root is missed, but is not in the name space")
	}
}

// A check that is due asks the agent, if it takes requests. A client that has
// disconnected misses nothing, and an agent that is down stays one to look for.
func TestCheck(t *testing.T) {
	a := &agentsettest.Namer{TraverseFunc: func() ([]string, error) { return []string{"d.x"}, nil }}
	tree, err := pmnsload.Parse("pmns", strings.NewReader("root { d 240:*:* }\n"), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := agentsettest.Start(t, 240, a, tree)
	s := Missing{Routes: func() *routes.Table { return table }, Timeout: func() time.Duration { return 10 * time.Second }}
	c := new(clients.Client)
	root, all := subtree{240, "d"}, subtree{domain: 240}

	table.Agent(240).SetFenced(true)
	s.miss(c, root, failed)
	s.miss(c, all, fenced)
	later := time.Now().Add(firstCheck)
	for i := range 3 {
		later = later.Add(2 * firstCheck)
		s.Check(later)
		if s.next.Load() == nil || len(s.missing) != 2 || c.Notices.Load() != 0 {
			t.Errorf("after check %d of a fenced agent: next at %v, %d missing, told %d", i, s.next.Load(), len(s.missing), c.Notices.Load())
		}
	}
	table.Agent(240).SetFenced(false)
	s.Check(later.Add(-time.Hour))
	if len(s.missing) != 2 {
		t.Error("a check that is not due")
	}
	s.Check(later.Add(2 * firstCheck))
	s.probes.Wait()
	if got := c.Notices.Swap(0); got != uint32(pdu.StateNamesChange) || len(s.missing) != 0 {
		t.Errorf("the client is told %d, %d missing", got, len(s.missing))
	}

	s.miss(c, all, down)
	s.Forget(c)
	if s.next.Load() != nil || s.missing[all] == nil {
		t.Error("a check is due although no client misses names, or the agent is forgotten")
	}
}

// Sessions, probes and the supervision of agents use what is missing at the same time. Each
// method has a goroutine of its own, so the race detector sees one that does not lock.
func TestMissingConcurrently(t *testing.T) {
	var s Missing
	key, all := subtree{240, "d"}, subtree{domain: 240}
	c, other := new(clients.Client), new(clients.Client)
	s.miss(c, key, failed)
	s.miss(other, all, down)
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() { s.miss(new(clients.Client), subtree{241, "e"}, failed) }, func() { s.Forget(c) }, func() { s.Forget(other) },
		func() { s.Back(240) }, func() { s.answered(nil, key) }, func() { s.due(time.Now()) }, func() { s.again(key, true) },
	} {
		wg.Go(f)
	}
	wg.Wait()
	if len(s.missing) != 1 || s.missing[subtree{241, "e"}] == nil {
		t.Errorf("missing are %v", s.missing)
	}
}

// A clock that is set changes nothing.
func TestCheckWhenTheClockIsSet(t *testing.T) {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{day, -day} {
		checks := 0
		s := Missing{Routes: func() *routes.Table {
			checks++
			return new(routes.Table)
		}}
		s.miss(new(clients.Client), subtree{domain: 240}, down)
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{-firstCheck, 0}, {2 * firstCheck, 1}} {
			s.Check(testutil.ClockSet(time.Now().Add(tt.after), step))
			if checks != tt.want {
				t.Errorf("clock set by %v, %v later: %d checks, want %d", step, tt.after, checks, tt.want)
			}
		}
	}
}
