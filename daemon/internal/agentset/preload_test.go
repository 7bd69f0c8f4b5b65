package agentset

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// preloading returns a harness with the agents root and t. It records what the Set calls for
// them. Opening root takes rootTakes.
func preloading(t *testing.T, rootTakes time.Duration) (h *harness, list []*Agent, calls func() []string) {
	var made []string
	record := func(what string, spec *pmcdconf.Agent) {
		h.mu.Lock()
		defer h.mu.Unlock()
		made = append(made, what+" "+spec.Name)
	}
	h = newHarness(t, func(c *Config) {
		open := c.Open
		c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			if spec.Domain == pmcdconf.RootDomain {
				time.Sleep(rootTakes)
			}
			record("open", spec)
			return open(ctx, spec, opt)
		}
		c.Preload = func(ctx context.Context, spec *pmcdconf.Agent) (discard func()) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("Preload has no deadline")
			}
			record("preload", spec)
			return func() { record("discard", spec) }
		}
	}, nil)
	root := h.NewAgent(&pmcdconf.Agent{Name: "root", Domain: pmcdconf.RootDomain, Kind: pmcdconf.Pipe})
	t.Cleanup(func() { h.Stop([]*Agent{root}) })
	return h, []*Agent{h.agent, root}, func() []string {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Clone(made)
	}
}

func wantCalls(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// Agents are preloaded while pmdaroot starts, however long that takes, and opened after it.
func TestPreload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rootTakes = time.Minute // longer than the time for the handshake
		h, list, calls := preloading(t, rootTakes)
		go h.Start(t.Context(), list)
		h.pass(rootTakes / 2)
		wantCalls(t, "while root starts", calls(), "preload t")
		if st := h.agent.Status(); st.State != Starting {
			t.Errorf("state %q, want %q", st.State, Starting)
		}
		h.pass(rootTakes)
		wantCalls(t, "afterwards", calls(), "preload t", "open root", "open t", "discard t")

		h.last.die(errNoStart) // a restart is not preloaded
		h.pass(2 * minBackoff)
		wantCalls(t, "restarted", calls()[4:], "open t")
	})
}

// Without pmdaroot no agent is preloaded.
func TestPreloadWithoutRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, list, calls := preloading(t, 0)
		h.Start(t.Context(), list[:1])
		wantCalls(t, "without root", calls(), "open t")
	})
}

// An agent that is stopped while it waits for pmdaroot is not opened, and what was preloaded
// is discarded.
func TestPreloadStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, list, calls := preloading(t, time.Second)
		go h.Start(t.Context(), list)
		h.pass(time.Second / 2)
		h.agent.stop(errUnconfigured)
		<-h.agent.gone
		wantCalls(t, "stopped", calls(), "preload t", "discard t")
		if !closed(h.agent.started) {
			t.Error("requests still wait for the start")
		}
		h.pass(time.Minute)
		wantCalls(t, "afterwards", calls(), "preload t", "discard t", "open root")
	})
}

// If the context of Start ends while pmdaroot starts, because pmcd ends, no other agent is
// opened.
func TestPreloadAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, list, calls := preloading(t, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.Start(ctx, list)
		h.pass(time.Hour)
		wantCalls(t, "after the end", calls(), "preload t", "open root")
		h.Stop(list)
		wantCalls(t, "stopped", calls(), "preload t", "open root", "discard t")
	})
}
