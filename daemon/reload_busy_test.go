package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// openHook has hook called when the Daemon is about to open an agent.
func openHook(hook func(ctx context.Context, spec *pmcdconf.Agent) error) func(*Config) {
	return func(c *Config) {
		open := c.Agents.Open
		c.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			if err := hook(ctx, spec); err != nil {
				return nil, err
			}
			return open(ctx, spec, opt)
		}
	}
}

// Requests that were on their way to an agent when it was replaced are
// answered by it, those that come later by the new one, and the new one is
// started when the old one is gone. An agent in another place does not wait.
func TestReloadInFlight(t *testing.T) {
	old := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}), Leave: make(chan struct{})}
	var first atomic.Pointer[agentset.Conn]
	r := newHarness(t, openHook(func(_ context.Context, spec *pmcdconf.Agent) error {
		if l := first.Load(); spec.Domain == 240 && l != nil {
			select {
			case <-l.Done():
			default:
				t.Error("the new agent is started while the old one is connected")
			}
		}
		return nil
	}), map[int]func(wire.Conn){240: serveAgent(old)})
	r.awaitStarts()
	first.Store(r.routes.Load().Agent(240).Conn())
	r.play(240, serveAgent(&agentsettest.Tester{Domain: 1240}))
	r.play(243, serveAgent(&agentsettest.Tester{Domain: 243}))

	busy, several, later, other := r.dial(), r.dial(), r.dial(), r.dial()
	for _, c := range []*client{busy, several, later, other} {
		c.send(&pdu.Profile{})
	}
	busy.send(&pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 9)}})
	<-old.Enter
	several.send(&pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 1), id(241, 1)}})
	testutil.Eventually(t, "both requests are on their way", func() bool { return first.Load().InFlight() == 2 })
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t -x\nu 241 pipe binary u\nw 243 pipe binary w\n")
	before := r.routes.Load()
	r.Reload()
	testutil.Eventually(t, "the new routes are in use", func() bool { return r.routes.Load() != before })
	later.send(&pdu.HighResFetch{PMIDs: []pdu.PMID{id(240, 1)}})
	if sets, _ := other.fetch(id(241, 1)); showSets(sets) != "241.0.1=241" {
		t.Errorf("an agent that is kept: %s", showSets(sets))
	}
	if sets, _ := other.fetch(id(243, 1)); showSets(sets) != "243.0.1=243" {
		t.Errorf("a new agent in another place: %s", showSets(sets))
	}
	if n := r.Status().Reloads.Count; n != 0 {
		t.Errorf("pmcd.sighups is %d before the reload is done", n)
	}
	close(old.Leave)
	for _, s := range []struct {
		name, want string
		c          *client
	}{
		{"on its way", "240.0.9=240", busy},
		{"on its way, among others", "240.0.1=240 241.0.1=241", several},
		{"later", "240.0.1=1240", later},
	} {
		m := s.c.recv()
		if e, ok := m.(*pdu.Error); ok && e.Code > 0 {
			m = s.c.recv()
		}
		if got := show(m); got != s.want {
			t.Errorf("%s: got %s, want %s", s.name, got, s.want)
		}
	}
	testutil.Eventually(t, "settled", func() bool { return r.Status().Reloads.Count == 1 })
}

// Clients are served while a reload takes its time, reloads that are asked for
// meanwhile are counted and done at once, and the end does not wait for it.
func TestSlowReload(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slow  func(r *harness) // the reload from now on
		looks bool             // it looks up a host
	}{
		{"an agent does not start", func(r *harness) {
			r.play(240, func(c wire.Conn) { hold(c) })
			r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t -x\nu 241 pipe binary u\n")
		}, false},
		{"a name server does not answer", func(r *harness) { r.write("pmcd.conf", testAgents+"allow far : all;\n") }, true},
		{"a command in the name space", func(r *harness) {
			r.write("pmns", "#shell \"exec sleep 3600\"\nroot { }\n")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHanging()
			r := newHarness(t, func(c *Config) { c.Agents.HandshakeTimeout, c.hooks.resolver = time.Hour, h }, nil)
			r.awaitStarts()
			c := r.dialValues()
			tt.slow(r)
			for range 3 {
				r.Reload()
			}
			restarts := func() int { return len(r.logs.With("pmcd RESTARTED")) }
			testutil.Eventually(t, "the reload has begun", func() bool { return restarts() == 1 })
			if tt.looks {
				<-h.asked
				defer close(h.open)
			}
			for range 3 {
				r.Reload()
				if got := c.values(id(241, 1)); got != "241.0.1=241" {
					t.Errorf("meanwhile: %s", got)
				}
				if got := c.pmid("u.one"); got != "241.0.1" {
					t.Errorf("meanwhile: names %s", got)
				}
			}
			if n := r.Status().Reloads.Count; n != 0 || restarts() != 1 {
				t.Errorf("pmcd.sighups is %d, and there are %d reloads", n, restarts())
			}
			r.stop() // what it would wait for takes an hour, or does not end
		})
	}
}

// A reload that does not end is a problem, which the log and the service manager are told
// of, until it ends. It says what it waits for.
func TestOverdueReload(t *testing.T) {
	reports := make(chan Health, 100)
	h := newHanging()
	r := newHarness(t, func(c *Config) {
		c.hooks.resolver, c.hooks.overdue = h, time.Millisecond
		c.Manager.Changed = func(h Health) { reports <- h }
		c.Manager.AgentsStarted = c.Manager.Changed
	}, nil)
	r.awaitStarts()
	if got := r.Problems(); len(got) != 0 {
		t.Errorf("before: %q", got)
	}
	const late = " has not ended, and no other can begin: it "
	// awaitTold waits until the manager is told that there is such a problem, or none.
	awaitTold := func(want bool) {
		for h := range reports {
			if strings.Contains(strings.Join(h.Problems, "\n"), late) == want {
				return
			}
		}
	}
	fifo := filepath.Join(r.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	release := func() {
		if err := os.WriteFile(fifo, nil, 0); err != nil { // waits for cat
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		name, file, text string
		hangs, release   func()
		step             string
	}{
		{"pmcd.conf", "pmcd.conf", testAgents + "allow far : all;\n", func() { <-h.asked }, func() { close(h.open) }, "reads " + r.dir + "/pmcd.conf"},
		{"a command in the name space", "pmns", "#shell 'cat " + fifo + "'\n" + testNames, func() {}, release, "reads " + r.dir + "/pmns or runs a command of it (#shell)"},
	} {
		r.logs.TakeAll()
		r.write(tt.file, tt.text)
		r.Reload()
		tt.hangs()
		awaitTold(true)
		want := late + tt.step + "; mend the file system, "
		testutil.Eventually(t, tt.name+" is a problem", func() bool {
			return strings.Contains(strings.Join(r.Problems(), "\n"), want)
		})
		if n := len(r.logs.With(late)); n != 1 {
			t.Errorf("%s: the log has %d lines, want 1", tt.name, n)
		}
		n := r.Status().Reloads.Count
		tt.release()
		awaitTold(false)
		if now := r.Problems(); len(now) != 0 || r.Status().Reloads.Count != n+1 {
			t.Errorf("%s: at the end the problems are %q, and there were %d reloads", tt.name, now, r.Status().Reloads.Count-n)
		}
	}
}

// Reloads that come while there is one are done at once, and each is counted
// when that is done, rejected or not.
func TestReloadsAreCounted(t *testing.T) {
	enter, leave := make(chan struct{}, 1), make(chan struct{})
	var block atomic.Bool
	counts := make(chan uint32, 2) // pmcd.sighups when a reload begins
	var r *harness
	r = newHarness(t, func(c *Config) {
		c.Manager.Reloading = func() { counts <- r.Status().Reloads.Count }
		openHook(func(ctx context.Context, spec *pmcdconf.Agent) error {
			if block.Load() && spec.Domain == 240 {
				enter <- struct{}{}
				<-leave
			}
			return nil
		})(c)
	}, nil)
	r.awaitStarts()
	block.Store(true)
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t -x\n")
	r.Reload()
	<-enter
	c := r.dialValues()
	for range 4 {
		r.Reload()
	}
	if _, changes := c.fetch(pdu.NewPMID(2, 0, 7)); changes&pdu.StateAddAgent != 0 || r.Status().Reloads.Count != 0 {
		t.Errorf("before it is done: changes %d, pmcd.sighups %d", changes, r.Status().Reloads.Count)
	}
	r.write("pmcd.conf", "t 240 pipe nonsense\n")
	close(leave)
	testutil.Eventually(t, "all are counted", func() bool { return r.Status().Reloads.Count == 5 })
	if first, second := <-counts, <-counts; first != 0 || second != 1 {
		t.Errorf("pmcd.sighups is %d and %d when a reload begins, want 0 and 1", first, second)
	}
	if n := len(r.logs.With("pmcd RESTARTED")); n != 2 {
		t.Errorf("%d reloads, want 2", n)
	}
	if !r.logged("has errors") {
		t.Error("the second did not see the bad file")
	}
	// The ends of the agents that went may have come before the client or after.
	if _, changes := c.fetch(pdu.NewPMID(2, 0, 7)); changes&^pdu.StateDropAgent != pdu.StateAddAgent {
		t.Errorf("afterwards: changes %d, want %d", changes, pdu.StateAddAgent)
	}
}

// Clients that ask without pause for what reloads do not touch notice none of
// them, and nothing is left behind. PMCD_RELOADS is how many there are.
func TestReloadUnderLoad(t *testing.T) {
	reloads := 100
	if text := os.Getenv("PMCD_RELOADS"); text != "" {
		if _, err := fmt.Sscan(text, &reloads); err != nil {
			t.Fatal(err)
		}
	}
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	end := make(chan struct{})
	var clients sync.WaitGroup
	var requests atomic.Int64
	for i := range 4 {
		c := r.dialValues()
		clients.Go(func() {
			for n := 0; !closed(end); n++ {
				switch (n + i) % 3 {
				case 0:
					if got := c.values(id(240, 1), id(241, 1)); got != "240.0.1=240 241.0.1=241" {
						t.Errorf("fetch: %s", got)
						return
					}
				case 1:
					if got := c.pmid("u.one"); got != "241.0.1" {
						t.Errorf("names: %s", got)
						return
					}
				case 2: // of one that is replaced: it is late at worst
					if got := c.values(id(242, 1)); got != "242.0.1=242" {
						t.Errorf("an agent that is replaced: %s", got)
						return
					}
				}
				requests.Add(1)
			}
		})
	}
	var goroutines, fds int
	for i := range reloads {
		r.write("pmcd.conf", fmt.Sprintf("pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\nv 242 pipe binary v %d\n", i))
		if i%2 == 1 {
			r.write("pmns", testNames+fmt.Sprintf("extra%d { }\n", i)) // rejected: it is not below the root
		} else {
			r.write("pmns", strings.Replace(testNames, "nine", "n", 1))
		}
		r.reloaded()
		r.logs.TakeAll()
		if i == 10 {
			goroutines, fds = r.Status().Goroutines, testutil.CountFDs()
		}
	}
	// What is about to end is not left behind: later polls see less.
	testutil.Eventually(t, "no more goroutines and descriptors than before", func() bool {
		return r.Status().Goroutines <= goroutines+2 && testutil.CountFDs() <= fds+2
	})
	close(end)
	clients.Wait()
	t.Logf("%d requests during %d reloads", requests.Load(), reloads)
	if requests.Load() < int64(reloads) {
		t.Errorf("only %d requests", requests.Load())
	}
}

// A reload starts agents while it looks up the groups of users, however long that takes: clients
// wait for the agents.
func TestReloadStartsWhileItLooksUp(t *testing.T) {
	h := newHanging()
	r := newHarness(t, func(c *Config) { c.hooks.resolver = h }, nil)
	release := sync.OnceFunc(func() { close(h.open) })
	t.Cleanup(release) // first of all cleanups: see testutil.CheckLeaks
	r.awaitStarts()
	r.play(243, serveAgent(&agentsettest.Tester{Domain: 243}))
	c := r.from("unix")
	c.send(hello)
	c.recv()
	c.ask() // it has logged in before
	r.write("pmcd.conf", strings.Replace(testAgents, "[", "w 243 pipe binary w\n[", 1)+"disallow group staff : store;\n")
	r.Reload()
	<-h.asked
	c.send(&pdu.Profile{})
	if sets, _ := c.fetch(id(243, 1)); showSets(sets) != "243.0.1=243" {
		t.Errorf("meanwhile: %s", showSets(sets))
	}
	if n := r.Status().Reloads.Count; n != 0 {
		t.Errorf("%d reloads are over", n)
	}
	release()
	testutil.Eventually(t, "the reload is over", func() bool { return r.Status().Reloads.Count == 1 })
}
