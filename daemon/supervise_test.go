package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// A fake is a Transport without an agent: the test says what becomes of it.
type fake struct {
	opt  wire.Options
	dead chan struct{}
	end  sync.Once
	err  error // set by end
	owes transport.Pending

	state transport.State
}

func (f *fake) Send(*transport.Call) (transport.Reply, error) { return f, nil }
func (f *fake) Recv(b []byte) ([]byte, error)                 { return b, transport.ErrLate }
func (f *fake) State() transport.State                        { return f.state }
func (f *fake) Notify(transport.Notice)                       {}
func (f *fake) WantsAttrs() bool                              { return false }
func (f *fake) Done() <-chan struct{}                         { return f.dead }
func (f *fake) Err() error                                    { return f.err }
func (f *fake) Close() error                                  { f.die(transport.ErrClosed); return nil }
func (f *fake) Pending() (transport.Pending, bool)            { return f.owes, f.owes.Type != 0 }
func (f *fake) die(err error)                                 { f.end.Do(func() { f.err = err; close(f.dead) }) }

// A stage is a Daemon in a bubble of package synctest, where agents are fakes.
type stage struct {
	*Daemon
	t     *testing.T
	began time.Time
	logs  *observer.ObservedLogs

	mu     sync.Mutex
	starts []time.Duration // of the agent of domain 240, since began
	last   *fake
}

var errNoStart = errors.New("it does not start")

// newStage returns a stage. open may be nil: then each start succeeds.
func newStage(t *testing.T, change func(*Config), open func(n int, f *fake) error) *stage {
	t.Helper()
	conf, err := pmcdconf.Parse("embedded", strings.NewReader("t 240 pipe binary t\n"), pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names, err := pmnsload.Parse("embedded", strings.NewReader("root { e }\ne { one 240:0:1 }\n"), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, began: time.Now()}
	core, logs := observer.New(zap.InfoLevel)
	s.logs = logs
	cfg := Config{
		Embedded:         &Embedded{Conf: conf, Names: names},
		RequestTimeout:   5 * time.Second,
		HandshakeTimeout: 3 * time.Second,
		Log:              zap.New(core),
		Open: func(_ context.Context, _ *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			f := &fake{opt: opt, dead: make(chan struct{})}
			s.mu.Lock()
			s.starts = append(s.starts, time.Since(s.began))
			n := len(s.starts)
			s.last = f
			s.mu.Unlock()
			if open != nil {
				if err := open(n, f); err != nil {
					return nil, err
				}
			}
			return &transport.Conn{Transport: f, In: 7, Out: 8}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	if s.Daemon, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stopAgents()
		s.tasks.Wait()
	})
	return s
}

func (s *stage) agent() *agent { return s.routes.Load().agent(240) }

// start is the first start, or what SIGHUP does.
func (s *stage) start() { s.startAgents(context.Background(), s.routes.Load().list) }

// pass lets time pass and all that happens then.
func (s *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// started fails the test unless the agent was started at these times.
func (s *stage) started(when string, want ...time.Duration) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.starts, want) {
		s.t.Errorf("%s: started at %v, want %v", when, s.starts, want)
	}
}

func (s *stage) status() AgentStatus { return s.Agents()[0] }

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
				s := newStage(t, func(c *Config) { c.NoRestart = tt.off }, func(n int, f *fake) error {
					lives := tt.lives(n)
					if lives < 0 {
						return errNoStart
					}
					time.AfterFunc(lives, func() { f.die(errors.New("it died")) })
					return nil
				})
				s.start()
				s.pass(200 * sec)
				s.started("after 200 s", tt.want...)
			})
		})
	}
}

// What clients are told of an agent that comes and goes is what they are told
// by C pmcd; a try that fails is no news.
func TestRestartIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, func(n int, _ *fake) error {
			if n == 2 {
				return errNoStart
			}
			return nil
		})
		client := new(session)
		s.clients.add(client)
		told := func(when string, bits uint32, seqnum uint32, status int32) {
			t.Helper()
			if got := client.notices.Swap(0); got != bits {
				t.Errorf("%s: told %d, want %d", when, got, bits)
			}
			if got := s.seqnum.Load(); got != seqnum {
				t.Errorf("%s: pmcd.seqnum %d, want %d", when, got, seqnum)
			}
			if got := s.agent().statusCode(); got != status {
				t.Errorf("%s: pmcd.agent.status %d, want %d", when, got, status)
			}
		}
		s.start()
		told("first start", 0, 2, 0)
		s.last.die(errors.New("it died"))
		synctest.Wait()
		told("dead", pdu.StateDropAgent, 2, statusProtocol)
		s.pass(time.Second)
		told("a start that fails", 0, 2, statusProtocol|statusNotStarted)
		s.pass(2 * time.Second)
		told("restarted", pdu.StateAddAgent|pdu.StateRestartAgent, 4, 0)
		if n := s.logs.FilterMessage("Auto-restarting agents.").Len(); n != 1 {
			t.Errorf("%d lines about restarts, want one for a minute", n)
		}
	})
}

// A reload starts an agent at once, whenever it would have been started, and
// the times begin anew; one that is up stays so.
func TestReloadStartsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, func(n int, f *fake) error {
			if n < 8 {
				return errNoStart
			}
			return nil
		})
		const sec = time.Second
		s.start()
		s.pass(20 * sec)
		want := []time.Duration{0, sec, 3 * sec, 7 * sec, 15 * sec, 20 * sec}
		s.start()
		s.started("asked to", want...)
		if st := s.status(); st.State != AgentDown || st.NextStart.Sub(s.began) != 21*sec || st.Failures != 1 {
			t.Errorf("status %+v", st)
		}
		s.pass(5 * sec)
		want = append(want, 21*sec, 23*sec)
		s.started("afterwards", want...)
		s.start()
		s.pass(time.Hour)
		s.started("asked while it is up", want...)
	})
}

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
			s := newStage(t, nil, tt.open)
			if tt.start {
				s.start()
			}
			a := s.agent()
			s.stopAgent(a, errUnconfigured)
			if a.conn.Load() != nil || !closed(a.started) {
				t.Errorf("%s: the agent is still there", tt.name)
			}
			<-a.gone
			s.startAgent(context.Background(), a) // comes too late
			s.pass(time.Hour)
			if n := len(s.starts); n > 1 {
				t.Errorf("%s: %d starts", tt.name, n)
			}
		}
	})
}

// An agent that is being started can be stopped: that ends the start.
func TestStopAgentWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(c *Config) {
			c.Open = func(ctx context.Context, _ *pmcdconf.Agent, _ wire.Options) (*transport.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, nil)
		go s.start()
		s.pass(time.Second)
		a := s.agent()
		if st := s.status(); st.State != AgentStarting {
			t.Errorf("state %q, want %q", st.State, AgentStarting)
		}
		next := newAgent(a.spec.Load())
		next.startAfter = []<-chan struct{}{a.gone}
		began := time.Now()
		s.stopAgent(a, errUnconfigured)
		s.startAgent(context.Background(), next) // until -q
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the next one took %v, want 3s", took)
		}
		s.stopAgent(next, errUnconfigured)
		if n := s.logs.FilterMessageSnippet("cannot start").Len(); n != 1 {
			t.Errorf("%d failures in the log, want that of the second", n)
		}
	})
}

// A late agent has the grace period to answer and is then given up, and started
// again as one that has died.
func TestLateGrace(t *testing.T) {
	const sec = time.Second
	type step struct {
		after time.Duration
		state wire.State
	}
	for _, tt := range []struct {
		name   string
		grace  time.Duration
		local  bool
		steps  []step
		starts []time.Duration
	}{
		{"ten times -t", 0, false, []step{{sec, wire.Late}}, []time.Duration{0, 52 * sec}},
		{"as the option says", 7 * sec, false, []step{{sec, wire.Late}}, []time.Duration{0, 9 * sec}},
		{"as C pmcd", -1, false, []step{{sec, wire.Late}}, []time.Duration{0, 2 * sec}},
		{"answers at last", 0, false, []step{{sec, wire.Late}, {49 * sec, wire.Ready}}, []time.Duration{0}},
		{"again and again", 0, false, []step{{sec, wire.Late}, {49 * sec, wire.Ready}, {sec, wire.Late}, {49 * sec, wire.Ready}}, []time.Duration{0}},
		{"late, well, late", 0, false, []step{{sec, wire.Late}, {10 * sec, wire.Ready}, {10 * sec, wire.Late}}, []time.Duration{0, 72 * sec}},
		{"late, then not ready", 0, false, []step{{sec, wire.Late}, {10 * sec, wire.NotReady}}, []time.Duration{0}},
		{"never ready", 0, false, []step{{sec, wire.NotReady}}, []time.Duration{0}},
		{"in the process", 0, true, []step{{sec, wire.Late}}, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(c *Config) {
					c.LateGrace = tt.grace
					if open := c.Open; tt.local {
						c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
							l, err := open(ctx, spec, opt)
							l.In, l.Out = -1, -1
							return l, err
						}
					}
				}, nil)
				s.start()
				first := s.last
				first.owes = transport.Pending{Type: pdu.TypeFetch, Client: 3, Since: time.Now()}
				for _, step := range tt.steps {
					s.pass(step.after)
					if s.last != first {
						t.Fatal("given up too early")
					}
					first.opt.OnState(step.state)
					synctest.Wait()
				}
				s.pass(10 * time.Minute)
				s.started("then", tt.starts...)
				if len(tt.starts) > 1 {
					st := s.status()
					for _, want := range []string{"no answer", "FETCH of client[3] unanswered for "} {
						if !strings.Contains(st.LastError, want) {
							t.Errorf("last error %q has no %q", st.LastError, want)
						}
					}
				}
			})
		})
	}
}

// The end of an agent's stderr is in the log and in its status, without the
// characters that control a terminal.
func TestStderrTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, func(int, *fake) error {
			return &transport.OpenError{Err: errNoStart, StderrTail: []string{"caf\u00e9\tau lait", "\x1b[2Jbye\x07 \xff\u009b"}}
		})
		s.start()
		want := []string{"caf\u00e9\tau lait", "?[2Jbye? ??"}
		st := s.status()
		if st.State != AgentDown || st.LastError != errNoStart.Error() || !slices.Equal(st.StderrTail, want) {
			t.Errorf("status %+v", st)
		}
		text := fmt.Sprintf("cannot start \"t\" agent (dom 240): %v; next start in 1s\n\tend of its stderr:\n\t| %s\n\t| %s", errNoStart, want[0], want[1])
		if s.logs.FilterMessage(text).Len() != 1 {
			t.Errorf("log: %+v\nwant %q", s.logs.All(), text)
		}
	})
}

// A client that switches timeouts off does not end an agent that is late.
func TestLateWithoutTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, nil)
		s.start()
		s.timeout.Store(0)
		s.last.opt.OnState(wire.Late)
		s.pass(24 * time.Hour)
		s.started("a day later", 0)
	})
}

// An agent that fails again and again does not fill the log, but is seen in it.
func TestCrashLoopInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, func(n int, f *fake) error {
			if n >= 100 {
				return nil
			}
			time.AfterFunc(time.Millisecond, func() { f.die(fmt.Errorf("death %d", n)) })
			return nil
		})
		s.start()
		s.pass(90 * time.Minute)
		lines := s.logs.FilterMessageSnippet("failures in a row")
		if n := lines.Len(); n < 80 || n > 91 {
			t.Errorf("%d lines in 90 minutes, want one a minute", n)
		}
		if n := s.logs.FilterMessageSnippet("active agent dom").Len(); n != 1 {
			t.Errorf("%d tables of agents in the log", n)
		}
		if all := s.logs.Len(); all > lines.Len()+20 {
			t.Errorf("%d entries in the log, %d of them about the loop", all, lines.Len())
		}
		for _, want := range []string{"death 1", "death 2", "Cleanup \"t\" agent (dom 240): protocol failure for fd=7", "(3 more like it in ", "next start in 1m0s"} {
			if s.logs.FilterMessageSnippet(want).Len() == 0 {
				t.Errorf("%q is not in the log", want)
			}
		}
		if st := s.status(); st.Failures < 90 || st.Restarts != st.Failures-1 || st.State != AgentDown {
			t.Errorf("status %+v", st)
		}
		s.pass(20 * time.Minute)
		if s.logs.FilterMessageSnippet("recovered after 99 failures").Len() != 1 {
			t.Error("the log does not say that it recovered")
		}
		if st := s.status(); st.State != AgentReady || st.Failures != 0 || !strings.Contains(st.LastError, "death 99") {
			t.Errorf("status %+v", st)
		}
	})
}

// Nothing is left of agents that have ended, while clients ask for them and for
// others.
func TestManyRestarts(t *testing.T) {
	r := newRig(t, nil, map[int]func(wire.Conn){240: func(c wire.Conn) {
		c.SetReadDeadline(time.Now().Add(3 * time.Millisecond)) // it ends in the middle of something
		serveAgent(&tester{domain: 240})(c)
	}})
	r.settled()
	var asking sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		c := r.dial()
		c.send(&pdu.Profile{})
		asking.Go(func() {
			for !stop.Load() {
				sets, _ := c.fetch(id(240, 1), id(241, 1))
				if len(sets) != 2 || sets[1].Err != 0 {
					t.Errorf("got %s", showSets(sets))
					return
				}
			}
		})
	}
	// Not all of them are down when they are asked for.
	restart := func(n int) {
		for range n {
			r.startAgents(t.Context(), r.routes.Load().list)
			a := r.routes.Load().agent(240)
			testutil.Eventually(t, "it is down", func() bool { return a.conn.Load() == nil })
		}
	}
	restart(10)
	goroutines, fds := r.Goroutines(), testutil.CountFDs()
	restart(300)
	testutil.Eventually(t, "nothing is left", func() bool { return r.Goroutines() <= goroutines+2 && testutil.CountFDs() <= fds+2 })
	stop.Store(true)
	asking.Wait()
}
