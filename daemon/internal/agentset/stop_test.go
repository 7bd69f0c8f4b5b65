package agentset

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An agent that is stopped is not started again, and leaves nothing behind:
// down, up, or while it is started. The next one with its domain waits for its
// end.
func TestStopAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			start bool // first
			open  func(n int, f *fake) error
		}{
			{"never started", false, nil},
			{"up", true, nil},
			{"down", true, func(int, *fake) error { return errNoStart }},
		} {
			h := newHarness(t, nil, tt.open)
			if tt.start {
				h.start()
			}
			a := h.agent
			a.stop(errUnconfigured)
			if a.life.conn.Load() != nil || !closed(a.started) {
				t.Errorf("%s: the agent is still there", tt.name)
			}
			<-a.gone
			a.start(context.Background()) // comes too late
			h.pass(time.Hour)
			if n := len(h.starts); n > 1 {
				t.Errorf("%s: %d starts", tt.name, n)
			}
		}
	})
}

// An agent that is stopped is not started, even if it is time for a restart. Which
// of the two superviseLoop notices first is random.
func TestStopAgentAtRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			h := newHarness(t, func(c *Config) {
				c.Log = logtest.OnLog(c.Log, func(e logtest.Entry) {
					if e.Level == slog.LevelError { // the failure: its restart is due before it is logged
						time.Sleep(2 * minBackoff)
					}
				})
			}, func(int, *fake) error { return errNoStart })
			go h.start()
			h.pass(minBackoff / 2)
			h.agent.stop(errTerminated)
			<-h.agent.gone
			h.startedAt("stopped", 0)
		}
	})
}

// An agent that is being started can be stopped: that ends the start.
func TestStopAgentWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config) {
			c.Open = func(ctx context.Context, _ *pmcdconf.Agent, _ wire.Options) (*transport.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, nil)
		go h.start()
		h.pass(time.Second)
		a := h.agent
		if st := h.agent.Status(); st.State != Starting {
			t.Errorf("state %q, want %q", st.State, Starting)
		}
		next := h.NewAgent(a.Spec())
		next.StartAfter(a)
		began := time.Now()
		a.stop(errUnconfigured)
		next.start(context.Background()) // until -q
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the next one took %v, want 3s", took)
		}
		next.stop(errUnconfigured)
		if n := len(h.logs.With("cannot start")); n != 1 {
			t.Errorf("%d failures in the log, want that of the second", n)
		}
	})
}

// An agent that is stopped during a start which succeeds nevertheless, as that of
// an agent in this process may, is not used, and nothing is left of it.
func TestStopAgentStartSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newKilledProcess()
		h := newHarness(t, func(c *Config) {
			open := c.Open
			c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
				time.Sleep(2 * time.Second) // also after the end of ctx
				c, err := open(ctx, spec, opt)
				c.Process = p
				return c, err
			}
		}, nil)
		go h.start()
		h.pass(time.Second)
		h.agent.stop(errUnconfigured)
		if h.agent.AwaitConn() != nil {
			t.Error("requests reach the agent")
		}
		<-h.agent.gone
		if len(h.calls) > 0 {
			t.Errorf("the Observer has %q, want nothing", h.calls)
		}
		if !closed(h.last.dead) || !p.stopped {
			t.Error("the connection, or the process, is left")
		}
		if st := h.agent.Status(); st.State != Down || st.Restarts != 0 || h.agent.StatusCode() != statusNotStarted {
			t.Errorf("pmcd.agent.status %d, %+v", h.agent.StatusCode(), st)
		}
	})
}

// A stoppingObserver stops the agent at the end of its start.
type stoppingObserver struct {
	*harness
	stop func(a *Agent)
}

func (o *stoppingObserver) AgentReady(a *Agent, _ bool) {
	go o.stop(a)
	time.Sleep(time.Millisecond) // it waits for the end of a now
}

// An agent that is stopped at the end of its start takes no request: one that waits for it would
// fail, and not go to the agent that replaces it.
func TestStopAgentAtEndOfStart(t *testing.T) {
	for name, stop := range map[string]func(a *Agent){
		"the end of pmcd": func(a *Agent) { a.set.Stop([]*Agent{a}) },
		"a reload":        func(a *Agent) { a.DrainAndStop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newKilledProcess()
				h := newHarness(t, nil, nil)
				h.cfg.Observer = &stoppingObserver{h, stop}
				open := h.cfg.Open
				h.cfg.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
					c, err := open(ctx, spec, opt)
					c.Process = p
					return c, err
				}
				h.start()
				<-h.agent.gone
				if len(h.calls) > 0 {
					t.Errorf("the Observer has %q: requests have reached the agent", h.calls)
				}
				if !closed(h.last.dead) || !p.stopped {
					t.Error("the connection, or the process, is left")
				}
			})
		})
	}
}

// A start that does not end, not even with its context, as on a file system that does not answer,
// delays the start of pmcd, requests, a reload that starts the agent and one that stops it, but not
// for ever.
func TestStartHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		h := newHarness(t, nil, func(int, *fake) error { <-answers; return nil })
		a := h.agent
		took := func(what string, want time.Duration, f func()) {
			t.Helper()
			began := time.Now()
			if f(); time.Since(began) != want {
				t.Errorf("%s took %v, want %v", what, time.Since(began), want)
			}
		}
		const limit = 6*time.Second + hangLimit
		go took("a request", limit, func() {
			if a.AwaitConn() != nil {
				t.Error("a request has a connection")
			}
		})
		took("the first start", limit, h.start)
		took("a second one", limit, h.start)
		if n := len(h.logs.With("has not ended within 16s")); n != 2 {
			t.Errorf("%d lines in the log, want 2", n)
		}
		next := h.NewAgent(a.Spec())
		next.StartAfter(a)
		took("the reload that replaces it", hangLimit, func() { a.DrainAndStop(context.Background()) })
		took("the start of the next one", limit, func() { next.start(context.Background()) })
		close(answers)
		synctest.Wait()
		if !closed(a.gone) || !closed(h.last.dead) {
			t.Error("the agent is left after the end of its start")
		}
		next.start(context.Background())
		if next.Conn() == nil {
			t.Error("the next one is not started")
		}
		next.stop(errTerminated)
	})
}
