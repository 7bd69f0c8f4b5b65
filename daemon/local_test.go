package daemon

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// explosive is a tester that panics when it is asked for item 8.
type explosive struct{ agentsettest.Tester }

func (a *explosive) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id.Item() == 8 {
			panic("ouch")
		}
	}
	return a.Tester.Fetch(ctx, r, w)
}

// An agent in process that panics or hangs costs its own metrics only.
func TestAgentInProcess(t *testing.T) {
	leave := make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	defer release()
	stuck := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}, 1), Leave: leave}
	r := newHarness(t, func(c *Config) {
		c.Agents.RequestTimeout = time.Second
		byWire := c.Agents.Open
		c.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			var a agents.Agent = stuck
			switch spec.Domain {
			case 241:
				a = &explosive{agentsettest.Tester{Domain: 241}}
			case 242:
				return byWire(ctx, spec, opt)
			}
			w := transport.Local(a)
			w.OnState(opt.OnState)
			return &transport.Conn{Transport: w, In: -1, Out: -1}, nil
		}
	}, nil)
	c := r.dialValues()
	fetch := func(want string, ids ...pdu.PMID) {
		t.Helper()
		if got := c.values(ids...); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	fetch("240.0.1=240 241.0.1=241 242.0.1=242", id(240, 1), id(241, 1), id(242, 1))

	fetch("240.0.1=240 241.0.8=PM_ERR_IPC 242.0.1=242", id(240, 1), id(241, 8), id(242, 1))
	r.awaitLogged(t, `agent "u" (dom 241) is down: agent panicked: ouch; FETCH of client[0] unanswered for `)
	r.awaitLogged(t, "\n\tstack of the panic:\n\t| goroutine ")
	testutil.Eventually(t, "dropped", func() bool {
		return c.values(id(241, 1)) == "241.0.1=PM_ERR_NOAGENT"
	})
	r.Reload() // starts another one
	testutil.Eventually(t, "restarted", func() bool {
		return c.values(id(241, 1)) == "241.0.1=241"
	})

	fetch("240.0.9=PM_ERR_AGAIN 241.0.1=241 242.0.1=242", id(240, 9), id(241, 1), id(242, 1))
	<-stuck.Enter
	r.awaitLogged(t, `agent "t" (dom 240) is late, calls abandoned so far: 1`)
	if l := r.routes.Load().Agent(240).Conn(); l == nil || l.State() != transport.Late {
		t.Error("not late")
	}
	fetch("240.0.1=PM_ERR_AGAIN 242.0.1=242", id(240, 1), id(242, 1))
	release()
	testutil.Eventually(t, "ready again", func() bool {
		return c.values(id(240, 1)) == "240.0.1=240"
	})
	r.awaitLogged(t, `agent "t" (dom 240) is ready`)
}

// The daemon ends although an agent in process does not.
func TestEndWithStuckAgent(t *testing.T) {
	stuck := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}, 1), Leave: make(chan struct{})}
	r := newHarness(t, func(c *Config) {
		t.Cleanup(func() { close(stuck.Leave) }) // after the end of Run, before leaks are counted
		c.Agents.RequestTimeout = 10 * time.Millisecond
		byWire := c.Agents.Open
		c.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			if spec.Domain != 240 {
				return byWire(ctx, spec, opt)
			}
			return &transport.Conn{Transport: transport.Local(stuck), In: -1, Out: -1}, nil
		}
	}, nil)
	c := r.dialValues()
	if got := c.values(id(240, 9)); got != "240.0.9=PM_ERR_AGAIN" {
		t.Errorf("got %s", got)
	}
}
