package daemon

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Agents connect to pmdaroot (domain 1) once, when they start: it is there
// before any of them is started. What they need is loaded before.
func TestRootStartsFirst(t *testing.T) {
	var rootGreeted atomic.Bool
	preloaded := make(chan string, 10)
	var discarded atomic.Int32
	var early atomic.Int32
	root, other := serveAgent(&tester{domain: 1}), serveAgent(&tester{domain: 240})
	mayGreet := make(chan struct{})
	r := newHarness(t, func(c *Config) {
		os.WriteFile(c.ConfigFile, []byte("t 240 pipe binary t\nu 241 pipe binary u\nroot 1 pipe binary r\npmcd 2 dso pmcd_init /none\n"), 0o666)
		c.Preload = func(_ context.Context, spec *pmcdconf.Agent) (discard func()) {
			preloaded <- spec.Name
			return func() { discarded.Add(1) }
		}
	}, map[int]func(wire.Conn){
		1: func(c wire.Conn) {
			<-mayGreet
			rootGreeted.Store(true)
			root(c)
		},
		240: func(c wire.Conn) {
			if !rootGreeted.Load() {
				early.Add(1)
			}
			other(c)
		},
	})
	if names := []string{<-preloaded, <-preloaded}; !slices.Contains(names, "t") || !slices.Contains(names, "u") {
		t.Errorf("preloaded %q, want t and u", names)
	}
	testutil.Eventually(t, "root started", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.opens[1] == 1
	})
	r.mu.Lock()
	if r.opens[240]+r.opens[241] > 0 {
		t.Error("others were started while root had not greeted")
	}
	r.mu.Unlock()
	close(mayGreet)
	r.awaitStarts()
	if len(preloaded) > 0 || discarded.Load() != 2 {
		t.Errorf("%d more were preloaded, and %d discarded, want 0 and 2", len(preloaded), discarded.Load())
	}
	if n := early.Load(); n > 0 {
		t.Error("an agent ran before root had greeted")
	}
	if m := r.dial().do(&pdu.DescReq{PMID: id(240, 1)}); m.Type() != pdu.TypeDesc {
		t.Errorf("afterwards: %s", show(m))
	}
}
