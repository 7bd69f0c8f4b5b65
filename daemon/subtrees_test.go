package daemon

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// namer is a tester that answers a traverse as it is told to.
type namer struct {
	agentsettest.Tester
	names atomic.Pointer[func() ([]string, error)] // nil: as a tester does
}

func (a *namer) say(f func() ([]string, error)) { a.names.Store(&f) }

func (a *namer) Traverse(ctx context.Context, o agents.Origin, name string) ([]string, error) {
	if f := a.names.Load(); f != nil {
		return (*f)()
	}
	return a.Tester.Traverse(ctx, o, name)
}

// traverse returns the names of a traverse, or the error.
func (c *client) traverse(name string) string {
	c.t.Helper()
	m := c.do(&pdu.PMNSTraverse{Name: name})
	if names, ok := m.(*pdu.PMNSNames); ok {
		return strings.Join(names.Names, " ")
	}
	return show(m)
}

// missingLines returns the lines of the log that say that names are missing.
func (r *harness) missingLines() (lines []string) {
	for _, e := range r.logs.All() {
		if strings.Contains(e.Message, "are missing") {
			lines = append(lines, e.Message)
		}
	}
	return lines
}

// Whatever is the matter with the agent of a dynamic root, a traverse from above
// has all other names and the root itself. When the agent has names again, clients
// that missed them are told, and no others.
func TestMissingSubtree(t *testing.T) {
	type failedAgent struct {
		r    *harness
		a    *namer
		heal func()
	}
	drop := func(b *failedAgent) {
		a := b.r.routes.Load().Agent(240)
		a.Conn().Disconnect(errors.New("the test says so"))
		b.heal = b.r.Reload
	}
	tests := []struct {
		name string
		fail func(t *testing.T, b *failedAgent, c *client)
		want string // a traverse that starts at the root
		log  string
	}{
		{"not configured", func(t *testing.T, b *failedAgent, c *client) {
			b.r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nu 241 pipe binary u\n")
			b.r.Reload()
			testutil.Eventually(t, "reloaded", func() bool { return b.r.routes.Load().Agent(240) == nil })
			b.heal = func() {
				b.r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nu 241 pipe binary u\nt 240 pipe binary t\n")
				b.r.Reload()
			}
		}, "d", "domain 240 has no agent"},
		{"down", func(t *testing.T, b *failedAgent, c *client) { drop(b) }, "d", `agent "t" (dom 240) is down`},
		{"fenced", func(t *testing.T, b *failedAgent, c *client) {
			host{b.r.Daemon}.SetFenced(240, true)
			b.heal = func() { host{b.r.Daemon}.SetFenced(240, false) }
		}, "d", "is fenced"},
		{"not ready", func(t *testing.T, b *failedAgent, c *client) {
			ready := make(chan struct{})
			drop(b)
			b.r.play(240, func(c wire.Conn) {
				c.Write(word(20, 0x700c, 0, 1, 0x01020000))
				c.Write(errorPDU(pdu.ErrnoNotReady))
				<-ready
				c.Write(errorPDU(pdu.ErrnoReady))
				serveAgent(&b.a.Tester)(greeted{c, new(bool)})
			})
			b.r.Reload()
			testutil.Eventually(t, "not ready", func() bool {
				return show(c.do(&pdu.DescReq{PMID: id(240, 1)})) == "PM_ERR_AGAIN"
			})
			b.heal = func() { close(ready) }
		}, "PM_ERR_AGAIN", "is not ready"},
		{"late with something else", func(t *testing.T, b *failedAgent, c *client) {
			b.a.Enter, b.a.Leave = make(chan struct{}, 1), make(chan struct{})
			c.fetch(id(240, 9))
			b.heal = func() { close(b.a.Leave) }
		}, "d", "has not answered in time"},
		{"late with the names", func(t *testing.T, b *failedAgent, c *client) {
			goOn := make(chan struct{})
			b.a.say(func() ([]string, error) { <-goOn; return []string{"d.late"}, nil })
			b.heal = func() { b.a.names.Store(nil); close(goOn) }
		}, "d", "has not answered in time"},
		{"an error", func(t *testing.T, b *failedAgent, c *client) {
			b.a.say(func() ([]string, error) { return nil, pdu.ErrnoPermission })
			b.heal = func() { b.a.names.Store(nil) }
		}, "PM_ERR_PERMISSION", "failed: "},
		{"dies of it", func(t *testing.T, b *failedAgent, c *client) {
			drop(b)
			b.r.play(240, script(240, pdu.TypePMNSTraverse, func(wire.Conn, []byte) {}))
			b.r.Reload()
			testutil.Eventually(t, "back", func() bool { sets, _ := c.fetch(id(240, 1)); return showSets(sets) == "240.0.1=1" })
			b.heal = func() { b.r.play(240, serveAgent(&b.a.Tester)); b.r.Reload() }
		}, "d", "failed: "},
		{"an error in place of the count", func(t *testing.T, b *failedAgent, c *client) {
			drop(b)
			b.r.play(240, refuser)
			b.r.Reload()
			testutil.Eventually(t, "back", func() bool { sets, _ := c.fetch(id(240, 1)); return showSets(sets) == "240.0.1=1" })
			b.heal = func() {
				drop(b)
				b.r.play(240, serveAgent(&b.a.Tester))
				b.r.Reload()
			}
		}, "PM_ERR_PERMISSION", "failed: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &failedAgent{a: &namer{Tester: agentsettest.Tester{Domain: 240}}}
			b.r = newHarness(t, shortRequests(strings.HasPrefix(tt.name, "late")),
				map[int]func(wire.Conn){240: serveAgent(b.a)})
			b.r.awaitStarts()
			c, unaffected := b.r.dial(), b.r.dial()
			c.t, unaffected.t = t, t
			c.send(&pdu.Profile{})
			unaffected.send(&pdu.Profile{})
			whole := c.traverse("")
			if !strings.Contains(whole, "d.x d.sub.five") {
				t.Fatalf("to begin with: %s", whole)
			}
			c.fetch(id(241, 1))
			before := len(b.r.missingLines()) // about the other root

			tt.fail(t, b, c)
			missing := strings.Replace(whole, "d.x d.sub.five", "d", 1)
			for range 3 {
				if got := c.traverse(""); got != missing {
					t.Errorf("of all: %s\nwant %s", got, missing)
				}
			}
			if got := c.traverse("d"); got != tt.want {
				t.Errorf("of the root: %s, want %s", got, tt.want)
			}
			if got := c.traverse("d.sub"); !strings.HasPrefix(got, "PM_ERR") {
				t.Errorf("below the root: %s, want an error", got)
			}
			if got := c.traverse("t"); !strings.HasPrefix(got, "t.one ") {
				t.Errorf("of another part: %s", got)
			}
			if got := show(c.do(&pdu.PMNSNames{Names: []string{"d", "u.one"}})); got != "1 [PM_ID_NULL 241.0.1]" {
				t.Errorf("names of all: %s", got)
			}
			switch lines := b.r.missingLines()[before:]; {
			case tt.name == "dies of it": // and is down then
				if len(lines) != 2 || !strings.Contains(lines[0], tt.log) {
					t.Errorf("the log has %q, want two with %q in the first", lines, tt.log)
				}
			case len(lines) != 1 || !strings.Contains(lines[0], tt.log):
				t.Errorf("the log has %q, want one with %q", lines, tt.log)
			}
			if _, changes := c.fetch(id(241, 1)); changes&pdu.StateNamesChange != 0 {
				t.Error("told of new names too early")
			}

			tt.log = ""
			b.heal()
			testutil.Eventually(t, "told of new names", func() bool {
				_, changes := c.fetch(id(241, 1))
				return changes&pdu.StateNamesChange != 0
			})
			testutil.Eventually(t, "all names", func() bool { return c.traverse("") == whole })
			var changes pdu.Errno
			for range 3 {
				_, more := unaffected.fetch(id(241, 1))
				changes |= more
			}
			if changes&pdu.StateNamesChange != 0 {
				t.Error("a client that missed nothing is told of new names")
			}
		})
	}
}

// refuser is an agent that has values, and for each traverse a PMNS_NAMES with an
// error code.
func refuser(c wire.Conn) {
	c.Write(word(20, 0x700c, 0, 1, 0x01020000))
	for r := pdu.NewReader(c, 0); ; {
		req, err := r.Next()
		if err != nil {
			return
		}
		switch _, t, _ := pdu.Header(req); t {
		case pdu.TypeFetch:
			var m pdu.Fetch
			pdu.ParseInto(req, &m)
			c.Write(result(m.PMIDs...))
		case pdu.TypePMNSTraverse:
			b, _ := pdu.Append(nil, 0, &pdu.PMNSNames{Err: pdu.ErrnoPermission})
			c.Write(b)
		case pdu.TypePMNSNames:
			c.Write(errorPDU(pdu.ErrnoName))
		}
	}
}

// greeted is the connection of an agent that has sent its CREDS.
type greeted struct {
	wire.Conn
	sent *bool
}

func (g greeted) Write(b []byte) (int, error) {
	if _, t, _ := pdu.Header(b); t == pdu.TypeCreds && !*g.sent {
		*g.sent = true
		return len(b), nil
	}
	return g.Conn.Write(b)
}

// The fetch that has values of an agent again tells of its names.
func TestNamesComeWithValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(t *testing.T, r *harness, a *agentsettest.Tester, c *client) (heal func())
	}{
		{"down", func(t *testing.T, r *harness, _ *agentsettest.Tester, c *client) func() {
			a := r.routes.Load().Agent(240)
			a.Conn().Disconnect(errors.New("the test says so"))
			return r.Reload
		}},
		{"fenced", func(t *testing.T, r *harness, _ *agentsettest.Tester, c *client) func() {
			host{r.Daemon}.SetFenced(240, true)
			return func() { host{r.Daemon}.SetFenced(240, false) }
		}},
		{"late", func(t *testing.T, r *harness, a *agentsettest.Tester, c *client) func() {
			a.Enter, a.Leave = make(chan struct{}, 1), make(chan struct{})
			c.fetch(id(240, 9))
			return func() { close(a.Leave) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &agentsettest.Tester{Domain: 240}
			r := newHarness(t, shortRequests(tt.name == "late"),
				map[int]func(wire.Conn){240: serveAgent(a)})
			r.awaitStarts()
			c := r.dial()
			c.t = t
			c.send(&pdu.Profile{})
			heal := tt.fail(t, r, a, c)
			// A look-up fails as a traverse does.
			if got := show(c.do(&pdu.PMNSNames{Names: []string{"d.x"}})); !strings.HasPrefix(got, "PM_ERR_") {
				t.Fatal(got)
			}
			heal()
			var all pdu.Errno
			since := time.Now()
			testutil.Eventually(t, "values", func() bool {
				sets, changes := c.fetch(id(240, 1))
				all |= changes
				return showSets(sets) == "240.0.1=240"
			})
			const firstCheck = time.Second // of pmcd whether names are back
			if all&pdu.StateNamesChange == 0 && time.Since(since) < firstCheck {
				t.Errorf("values, but state changes %d", all)
			}
		})
	}
}
