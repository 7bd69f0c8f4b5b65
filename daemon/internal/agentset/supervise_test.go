package agentset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An agent that fails is started again, later and later; one that has done well
// for a minute starts from the beginning.
func TestRestartTimes(t *testing.T) {
	const sec = time.Second
	loop := []time.Duration{0, sec, 3 * sec, 7 * sec, 15 * sec, 31 * sec, 63 * sec, 123 * sec, 183 * sec}
	tests := []struct {
		name  string
		lives func(n int) time.Duration // below 0: does not start
		off   bool
		want  []time.Duration // within 200 seconds
	}{
		{"lives", func(int) time.Duration { return time.Hour }, false, loop[:1]},
		{"dies at once", func(int) time.Duration { return 0 }, false, loop},
		{"never starts", func(int) time.Duration { return -1 }, false, loop},
		{"never starts, but for one time", func(n int) time.Duration { return time.Duration(2*n-11) * time.Hour }, false, loop[:6]},
		{"dies after a second", func(int) time.Duration { return sec }, false,
			[]time.Duration{0, 2 * sec, 5 * sec, 10 * sec, 19 * sec, 36 * sec, 69 * sec, 130 * sec, 191 * sec}},
		{"dies just before a minute", func(int) time.Duration { return 59 * sec }, false,
			[]time.Duration{0, 60 * sec, 121 * sec, 184 * sec}},
		{"dies just after a minute", func(int) time.Duration { return 61 * sec }, false,
			[]time.Duration{0, 62 * sec, 124 * sec, 186 * sec}},
		{"switched off", func(int) time.Duration { return 0 }, true, loop[:1]},
		{"switched off, does not start", func(int) time.Duration { return -1 }, true, loop[:1]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, func(c *Config) { c.NoRestart = tt.off }, func(n int, f *fake) error {
					lives := tt.lives(n)
					if lives < 0 {
						return errNoStart
					}
					time.AfterFunc(lives, func() { f.die(errors.New("it died")) })
					return nil
				})
				h.start()
				h.pass(200 * sec)
				h.startedAt("after 200 s", tt.want...)
			})
		})
	}
}

// An agent that fails when the daemon is about to end is not restarted, and the log has
// no line about the failure.
func TestFailureAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends bool
		want []time.Duration // starts within two seconds
		logs int
	}{
		{"the daemon goes on", false, []time.Duration{0, time.Second}, 1},
		{"the daemon is about to end", true, []time.Duration{0}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ending := make(chan struct{})
				h := newHarness(t, func(c *Config) { c.Ending = ending }, nil)
				h.start()
				if tt.ends {
					close(ending)
				}
				h.last.die(errors.New("it died"))
				h.pass(2 * time.Second)
				h.startedAt("after two seconds", tt.want...)
				if n := len(h.logs.With(" is down: it died")); n != tt.logs {
					t.Errorf("%d lines about the failure, want %d", n, tt.logs)
				}
				if terminated := len(h.logs.With("): terminated")) > 0; terminated != tt.ends {
					t.Errorf("the log says that the agent was terminated: %v, want %v", terminated, tt.ends)
				}
			})
		})
	}
}

// The Observer is told of an agent that comes and goes, and not of a start that
// fails: before clients cannot reach the agent, and before and after they can.
func TestRestartIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, func(n int, _ *fake) error {
			if n == 2 {
				return errNoStart
			}
			return nil
		})
		observed := func(when string, status int32, want ...string) {
			t.Helper()
			h.mu.Lock()
			defer h.mu.Unlock()
			if !slices.Equal(h.calls, want) {
				t.Errorf("%s: observed %q, want %q", when, h.calls, want)
			}
			h.calls = nil
			if got := h.agent.StatusCode(); got != status {
				t.Errorf("%s: pmcd.agent.status %d, want %d", when, got, status)
			}
		}
		h.start()
		observed("first start", 0, "ready without a connection", "connected")
		h.last.die(errors.New("it died"))
		synctest.Wait()
		observed("dead", statusProtocol, "disconnected")
		h.pass(time.Second)
		observed("a start that fails", statusProtocol|statusNotStarted)
		h.pass(2 * time.Second)
		observed("restarted", 0, "ready without a connection", "connected", "restarted")
		if n := h.logs.Exactly("Auto-restarting agents."); n != 1 {
			t.Errorf("%d lines about restarts, want one for a minute", n)
		}
		h.last.opt.OnState(transport.Late)
		observed("late", 0)
		h.last.opt.OnState(transport.Ready)
		observed("has answered", 0, "ready")
		h.last.opt.OnState(transport.NotReady)
		h.last.opt.OnState(transport.Ready)
		observed("was not ready", 0, "ready, new names")
	})
}

// A reload starts an agent at once, whenever it would have been started, and
// the times begin anew; one that is up stays so.
func TestReloadStartsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, func(n int, f *fake) error {
			if n < 8 {
				return errNoStart
			}
			return nil
		})
		const sec = time.Second
		h.start()
		h.pass(20 * sec)
		want := []time.Duration{0, sec, 3 * sec, 7 * sec, 15 * sec, 20 * sec}
		h.start()
		h.startedAt("asked to", want...)
		if st := h.agent.Status(); st.State != Down || st.NextStart.Sub(h.began) != 21*sec || st.Failures != 1 {
			t.Errorf("status %+v", st)
		}
		h.pass(5 * sec)
		want = append(want, 21*sec, 23*sec)
		h.startedAt("afterwards", want...)
		h.start()
		h.pass(time.Hour)
		h.startedAt("asked while it is up", want...)
	})
}

// A busyTransport keeps superviseLoop busy for two seconds, once.
type busyTransport struct {
	*fake
	once sync.Once
}

func (b *busyTransport) CheckIdle() { b.once.Do(func() { time.Sleep(2 * time.Second) }) }

// A reload that finds an agent disconnected starts it, also if superviseLoop has
// not yet noticed the end of the connection. Which of the two it notices first is
// random.
func TestReloadAtDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			h := newHarness(t, func(c *Config) {
				c.NoRestart = true
				open := c.Open
				c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
					c, err := open(ctx, spec, opt)
					c.Transport = &busyTransport{fake: c.Transport.(*fake)}
					return c, err
				}
			}, nil)
			h.agent.SetSpec(&pmcdconf.Agent{Name: "t", Domain: 240, Kind: pmcdconf.Socket})
			h.start()
			h.pass(idleCheckInterval + time.Millisecond)
			h.agent.Conn().Disconnect(errors.New("a bad reply"))
			h.start()
			if h.agent.Conn() == nil {
				t.Fatal("the agent is down after the reload")
			}
			h.startedAt("after the reload", 0, 3*time.Second)
		}
	})
}

// A slowObserver takes a second to tell an agent about the clients.
type slowObserver struct {
	*harness
	introduced atomic.Bool
}

func (o *slowObserver) AgentConnected(c *Conn) {
	time.Sleep(time.Second)
	o.introduced.Store(true)
}

// A request uses a new connection only when the agent was told of the clients.
func TestRequestAwaitsAgentConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(slowObserver)
		o.harness = newHarness(t, func(c *Config) { c.Observer = o }, nil)
		go o.start()
		synctest.Wait()
		c := o.agent.Conn()
		if c == nil {
			t.Fatal("the Observer cannot reach the agent")
		}
		if !c.Acquire() || !o.introduced.Load() {
			t.Error("a request uses the connection before AgentConnected has returned")
		}
		c.Release()
	})
}

// A request that fails although the Transport has not ended disconnects the agent
// because of that error.
func TestTransportErrorWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, nil)
		h.start()
		err := h.agent.Conn().TransportError(errors.New("it is no request"))
		if err != pdu.ErrnoIPC {
			t.Errorf("the client gets %v, want %v", err, pdu.ErrnoIPC)
		}
		synctest.Wait()
		const want = "it is no request; it was up for 0s"
		if st := h.agent.Status(); st.State != Down || st.LastError != want {
			t.Errorf("%s, %q, want %q", st.State, st.LastError, want)
		}
	})
}

// A late agent has the grace period to answer. Then it is disconnected and restarted
// like one that has died.
func TestLateGrace(t *testing.T) {
	const sec = time.Second
	type step struct {
		after time.Duration
		state transport.State
	}
	for _, tt := range []struct {
		name   string
		grace  time.Duration
		local  bool
		steps  []step
		starts []time.Duration
	}{
		{"ten times -t", 0, false, []step{{sec, transport.Late}}, []time.Duration{0, 52 * sec}},
		{"as the option says", 7 * sec, false, []step{{sec, transport.Late}}, []time.Duration{0, 9 * sec}},
		{"as C pmcd", -1, false, []step{{sec, transport.Late}}, []time.Duration{0, 2 * sec}},
		{"answers at last", 0, false, []step{{sec, transport.Late}, {49 * sec, transport.Ready}}, []time.Duration{0}},
		{"again and again", 0, false, []step{{sec, transport.Late}, {49 * sec, transport.Ready}, {sec, transport.Late}, {49 * sec, transport.Ready}}, []time.Duration{0}},
		{"late, well, late", 0, false, []step{{sec, transport.Late}, {10 * sec, transport.Ready}, {10 * sec, transport.Late}}, []time.Duration{0, 72 * sec}},
		{"late, then not ready", 0, false, []step{{sec, transport.Late}, {10 * sec, transport.NotReady}}, []time.Duration{0}},
		{"never ready", 0, false, []step{{sec, transport.NotReady}}, []time.Duration{0}},
		{"in the process", 0, true, []step{{sec, transport.Late}}, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, func(c *Config) {
					c.LateGrace = tt.grace
					if open := c.Open; tt.local {
						c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
							l, err := open(ctx, spec, opt)
							l.In, l.Out = -1, -1
							return l, err
						}
					}
				}, nil)
				h.start()
				first := h.last
				first.owes = transport.Pending{Type: pdu.TypeFetch, Client: 3, Since: time.Now()}
				for _, step := range tt.steps {
					h.pass(step.after)
					if h.last != first {
						t.Fatal("disconnected too early")
					}
					first.opt.OnState(step.state)
					synctest.Wait()
				}
				h.pass(10 * time.Minute)
				h.startedAt("then", tt.starts...)
				if len(tt.starts) > 1 {
					st := h.agent.Status()
					why := "longer than --late-grace; pmcd disconnects it; "
					if tt.grace < 0 {
						why = "no answer within -t, and --late-grace is 0; pmcd disconnects it; "
					}
					for _, want := range []string{why, "FETCH of client[3] unanswered for "} {
						if !strings.Contains(st.LastError, want) {
							t.Errorf("last error %q has no %q", st.LastError, want)
						}
					}
				}
			})
		})
	}
}

// An agent that recovers when its grace period is over, and is late again at once,
// has a new one, whatever superviseLoop notices first.
func TestLateAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			h := newHarness(t, func(c *Config) {
				c.LateGrace = 2 * time.Second
				open := c.Open
				c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
					c, err := open(ctx, spec, opt)
					c.Transport = &busyTransport{fake: c.Transport.(*fake)}
					return c, err
				}
			}, nil)
			h.agent.SetSpec(&pmcdconf.Agent{Name: "t", Domain: 240, Kind: pmcdconf.Socket})
			h.start()
			h.last.opt.OnState(transport.Late)
			h.pass(2*time.Second - time.Millisecond) // in the idle check
			h.last.opt.OnState(transport.Ready)
			h.last.opt.OnState(transport.Late)
			h.pass(2*time.Second - time.Millisecond)
			h.startedAt("before the end of the second grace period", 0)
			h.pass(2 * time.Second)
			h.startedAt("after it", 0, 4999*time.Millisecond)
		}
	})
}

// The end of an agent's stderr is in the log and in its status, without the
// characters that control a terminal.
func TestStderrTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, func(int, *fake) error {
			return &transport.OpenError{Err: errNoStart, StderrTail: []string{"caf\u00e9\tau lait", "\x1b[2Jbye\x07 \xff\u009b"}}
		})
		h.start()
		want := []string{"caf\u00e9\tau lait", `\x1b[2Jbye\a \xff\u009b`}
		st := h.agent.Status()
		if st.State != Down || st.LastError != errNoStart.Error() || !slices.Equal(st.StderrTail, want) {
			t.Errorf("status %+v", st)
		}
		text := fmt.Sprintf("cannot start \"t\" agent (dom 240): %v; next start in 1s\n\tend of its stderr:\n\t| %s\n\t| %s", errNoStart, want[0], want[1])
		if h.logs.Exactly(text) != 1 {
			t.Errorf("log: %+v\nwant %q", h.logs.All(), text)
		}
	})
}

// A client that switches timeouts off does not end an agent that is late.
func TestLateWithoutTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, nil)
		h.start()
		h.timeout.Store(0)
		h.last.opt.OnState(transport.Late)
		h.pass(24 * time.Hour)
		h.startedAt("a day later", 0)
	})
}

// An agent that fails again and again does not fill the log, but is seen in it.
func TestCrashLoopInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, func(n int, f *fake) error {
			if n >= 100 {
				return nil
			}
			time.AfterFunc(time.Millisecond, func() { f.die(fmt.Errorf("death %d", n)) })
			return nil
		})
		h.start()
		h.pass(90 * time.Minute)
		lines := h.logs.With("failures in a row")
		if n := len(lines); n < 80 || n > 91 {
			t.Errorf("%d lines in 90 minutes, want one a minute", n)
		}
		for _, e := range lines {
			if e.Level != slog.LevelError {
				t.Errorf("the level of %q is %v", e.Message, e.Level)
			}
		}
		notQuiet := 0
		for _, call := range h.calls {
			if call == "restarted" {
				notQuiet++
			}
		}
		if notQuiet != logThreshold {
			t.Errorf("%d restarts that were not quiet, want %d", notQuiet, logThreshold)
		}
		if all := h.logs.Len(); all > len(lines)+20 {
			t.Errorf("%d entries in the log, %d of them about the loop", all, len(lines))
		}
		for _, want := range []string{"death 1", "death 2", "Cleanup \"t\" agent (dom 240): protocol failure for fd=7", "(3 more like it in ", "next start in 1m0s"} {
			if len(h.logs.With(want)) == 0 {
				t.Errorf("%q is not in the log", want)
			}
		}
		if st := h.agent.Status(); st.Failures < 90 || st.Restarts != st.Failures-1 || st.State != Down {
			t.Errorf("status %+v", st)
		}
		h.pass(20 * time.Minute)
		if len(h.logs.With("recovered after 99 failures")) != 1 {
			t.Error("the log does not say that it recovered")
		}
		if st := h.agent.Status(); st.State != Ready || st.Failures != 0 || !strings.Contains(st.LastError, "death 99") {
			t.Errorf("status %+v", st)
		}
	})
}

// pmcd.agent.status is 1 in the first start and as long as the agent is not
// ready, and has the reason from its end until it is up again, whatever becomes
// of the starts between.
func TestStatusOfAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil, nil)
		var last *fake
		starts := 0
		h.cfg.Open = func(_ context.Context, _ *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			time.Sleep(time.Second / 4)
			if starts++; starts == 1 || starts == 3 {
				return nil, errNoStart
			}
			last = &fake{opt: opt, dead: make(chan struct{})}
			return &transport.Conn{Transport: last, Process: newKilledProcess()}, nil
		}
		status := func(when string, want int32, state StateName) {
			t.Helper()
			synctest.Wait()
			if got := h.agent.StatusCode(); got != want {
				t.Errorf("%s: pmcd.agent.status %#x, want %#x", when, got, want)
			}
			if got := h.agent.Status().State; got != state {
				t.Errorf("%s: %s, want %s", when, got, state)
			}
		}
		status("before the first start", 1, Starting)
		go h.start()
		status("first start", 1, Starting)
		h.pass(time.Second / 4)
		status("it failed", 4, Down)
		h.pass(time.Second)
		status("second start", 4, Starting)
		h.pass(time.Second / 4)
		status("up", 0, Ready)
		last.opt.OnState(transport.Late)
		status("late", 0, Late)
		last.opt.OnState(transport.Ready)
		last.die(errors.New("it died"))
		status("dead", 0x90008, Down)
		h.pass(2 * time.Second) // the second failure
		status("a start again", 0x90008, Starting)
		h.pass(time.Second / 4)
		status("it failed, too", 0x9000c, Down)
		h.pass(4*time.Second + time.Second/4)
		status("up again", 0, Ready)
	})
}
