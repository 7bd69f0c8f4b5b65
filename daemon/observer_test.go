package daemon

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// What clients and pmcd.seqnum are told of an agent that comes and goes is what
// C pmcd tells. The log has the table of agents once a minute, and not at all for
// an agent that fails again and again.
func TestAgentObserver(t *testing.T) {
	conf, err := pmcdconf.Parse("embedded", strings.NewReader("t 240 pipe binary t\n"), pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, logs := logtest.NewLog()
	d, err := New(t.Context(), Config{
		Files:     Files{Embedded: &Embedded{Conf: conf, Names: new(pmnsload.Tree)}},
		Listeners: new(Listeners), Agents: Agents{Open: openNothing}, Log: log, Debug: "appl6",
	})
	if err != nil {
		t.Fatal(err)
	}
	o, a := agentObserver{d}, d.routes.Load().Agent(240)
	changes := 0
	for _, tt := range []struct {
		what   string
		tell   func()
		bits   int32
		seqnum uint32
		tables int
	}{
		{"connected", func() { o.AgentConnected(nil) }, 0, 2, 0},
		{"disconnected", func() { o.AgentDisconnected(a) }, pdu.StateDropAgent, 2, 0},
		{"restarted, quiet", func() { o.AgentRestarted(a, true) }, pdu.StateAddAgent | pdu.StateRestartAgent, 3, 0},
		{"restarted", func() { o.AgentRestarted(a, false) }, pdu.StateAddAgent | pdu.StateRestartAgent, 4, 1},
		{"restarted again", func() { o.AgentRestarted(a, false) }, pdu.StateAddAgent | pdu.StateRestartAgent, 5, 1},
		{"ready", func() { o.AgentReady(a, false) }, 0, 5, 1},
	} {
		tt.tell()
		var want []string // what clients are told
		if tt.bits != 0 {
			want = []string{"state change for all clients: " + diag.StateChanges(tt.bits)}
		}
		var got []string
		for _, e := range logs.With("state change")[changes:] {
			got = append(got, e.Message)
		}
		if changes += len(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.what, got, want)
		}
		if got := d.seqnum.Load(); got != tt.seqnum {
			t.Errorf("%s: pmcd.seqnum %d, want %d", tt.what, got, tt.seqnum)
		}
		if got := len(logs.With("active agent dom")); got != tt.tables {
			t.Errorf("%s: %d tables of agents, want %d", tt.what, got, tt.tables)
		}
		if got := len(d.reloader.NameRequests()); got != 0 {
			t.Errorf("%s: names are looked at", tt.what)
		}
	}
	o.AgentReady(a, true)
	o.AgentReady(a, true) // does not wait
	if got := len(d.reloader.NameRequests()); got != 1 {
		t.Errorf("%d requests to look at the names", got)
	}
}

// Nothing is left of agents that have ended, while clients ask for them and for
// others.
func TestManyRestarts(t *testing.T) {
	r := newHarness(t, nil, map[int]func(wire.Conn){240: func(c wire.Conn) {
		c.SetReadDeadline(time.Now().Add(3 * time.Millisecond)) // it ends in the middle of something
		serveAgent(&agentsettest.Tester{Domain: 240})(c)
	}})
	r.awaitStarts()
	var asking sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		c := r.dialValues()
		asking.Go(func() {
			for !stop.Load() {
				if got := c.values(id(240, 1), id(241, 1)); !strings.HasSuffix(got, " 241.0.1=241") {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	// Not all of them are down when they are asked for.
	restart := func(n int) {
		for range n {
			r.agentSet.Start(t.Context(), r.routes.Load().Agents())
			a := r.routes.Load().Agent(240)
			testutil.Eventually(t, "it is down", func() bool { return a.Conn() == nil })
		}
	}
	restart(10)
	goroutines, fds := r.Status().Goroutines, testutil.CountFDs()
	restart(300)
	testutil.Eventually(t, "nothing is left", func() bool { return r.Status().Goroutines <= goroutines+2 && testutil.CountFDs() <= fds+2 })
	stop.Store(true)
	asking.Wait()
}
