package daemon

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Agents connect to pmdaroot (domain 1) once, when they start: it is there
// before any of them is started.
func TestRootStartsFirst(t *testing.T) {
	var rootGreeted atomic.Bool
	var early atomic.Int32
	root, other := serveAgent(&agentsettest.Tester{Domain: 1}), serveAgent(&agentsettest.Tester{Domain: 240})
	mayGreet := make(chan struct{})
	r := newHarness(t, func(c *Config) {
		os.WriteFile(c.Files.Conf, []byte("t 240 pipe binary t\nu 241 pipe binary u\nroot 1 pipe binary r\n"), 0o666)
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
	if n := early.Load(); n > 0 {
		t.Error("an agent ran before root had greeted")
	}
	if m := r.dial().do(&pdu.DescReq{PMID: id(240, 1)}); m.Type() != pdu.TypeDesc {
		t.Errorf("afterwards: %s", show(m))
	}
}
