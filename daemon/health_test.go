package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// What Changed is told follows the agents and the problems, and it is not
// called for each of many changes.
func TestHealth(t *testing.T) {
	said := make(chan Health, 100)
	var calls atomic.Int32
	var rains atomic.Bool
	rains.Store(true)
	r := newRig(t, func(c *Config) {
		c.Settled = func(h Health) { said <- h }
		c.Changed = func(h Health) { calls.Add(1); said <- h }
		c.Problems = func() []string {
			if rains.Load() {
				return []string{"it rains"}
			}
			return nil
		}
		c.AgentNote = func(domain int) string {
			return map[int]string{242: "runs as bob"}[domain]
		}
	}, nil)
	until := func(want Health) {
		t.Helper()
		var got Health
		for deadline := time.After(20 * time.Second); !reflect.DeepEqual(got, want); {
			select {
			case got = <-said:
			case <-deadline:
				t.Fatalf("the last was %+v, want %+v", got, want)
			}
		}
	}
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	a := r.routes.Load().agent(241)
	r.disconnect(a, a.conn.Load(), errors.New("the test says so"))
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"u is down"}, Problems: []string{"it rains", "v runs as bob"}})
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	r.write("pmcd.conf", "nonsense\n")
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains",
		"the last reload failed: Configuration file '" + r.dir + "/pmcd.conf' has errors: " + r.dir + "/pmcd.conf:1:9: expected domain number for \"nonsense\" agent", "v runs as bob"}})
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\nv 242 pipe binary v\n")
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	host{r.Daemon}.SetFenced(240, true)
	r.SetProblem("a", "one")
	r.SetProblem("b", "two")
	r.SetProblem("a", "three")
	rains.Store(false)
	r.SetProblem("none", "")
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"t is fenced"}, Problems: []string{"three", "two", "v runs as bob"}})
	if got := r.Problems(); !slices.Equal(got, []string{"three", "two"}) {
		t.Errorf("problems %q", got)
	}

	before, began := calls.Load(), time.Now()
	for i := range 10000 {
		host{r.Daemon}.SetFenced(240, i%2 == 0)
	}
	until(Health{Agents: 4, Ready: 4, Problems: []string{"three", "two", "v runs as bob"}})
	if n, most := calls.Load()-before, int32(time.Since(began)/healthTime)+2; n > most {
		t.Errorf("called %d times more, at most %d expected", n, most)
	}
}

// A service manager that does not take what it is told keeps no client waiting: the
// liveness probe goes on.
func TestSlowManager(t *testing.T) {
	told, taken := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, func(c *Config) {
		c.Changed = func(Health) {
			told <- struct{}{}
			<-taken
		}
	}, nil)
	take := sync.OnceFunc(func() { close(taken) })
	defer take()
	r.settled()
	r.SetProblem("a", "one")
	<-told
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Beat(ctx); err != nil {
		t.Errorf("no beat: %v", err)
	}
	r.SetProblem("a", "two")
	take()
	<-told // what has changed meanwhile is told, too
}

// A killedProcess is one that signal 9 has ended.
type killedProcess struct{ fakeProcess }

func (*killedProcess) Stop(context.Context)       {}
func (*killedProcess) Status() syscall.WaitStatus { return syscall.WaitStatus(syscall.SIGKILL) }

// pmcd.agent.status is 1 in the first start and as long as the agent is not
// ready, and has the reason from its end until it is up again, whatever becomes
// of the starts between.
func TestStatusOfAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil, nil)
		var last *fake
		starts := 0
		s.cfg.Open = func(_ context.Context, _ *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			time.Sleep(time.Second / 4)
			if starts++; starts == 1 || starts == 3 {
				return nil, errNoStart
			}
			last = &fake{opt: opt, dead: make(chan struct{})}
			p := &killedProcess{fakeProcess{done: make(chan struct{})}}
			close(p.done)
			return &transport.Conn{Transport: last, Process: p}, nil
		}
		status := func(when string, want int32, state AgentState) {
			t.Helper()
			synctest.Wait()
			if got := s.agent().statusCode(); got != want {
				t.Errorf("%s: pmcd.agent.status %#x, want %#x", when, got, want)
			}
			if got := s.status().State; got != state {
				t.Errorf("%s: %s, want %s", when, got, state)
			}
		}
		status("before the first start", 1, AgentStarting)
		go s.start()
		status("first start", 1, AgentStarting)
		s.pass(time.Second / 4)
		status("it failed", 4, AgentDown)
		s.pass(time.Second)
		status("second start", 4, AgentStarting)
		s.pass(time.Second / 4)
		status("up", 0, AgentReady)
		last.opt.OnState(wire.Late)
		status("late", 0, AgentLate)
		last.opt.OnState(wire.Ready)
		last.die(errors.New("it died"))
		status("dead", 0x90008, AgentDown)
		s.pass(2 * time.Second) // the second failure
		status("a start again", 0x90008, AgentStarting)
		s.pass(time.Second / 4)
		status("it failed, too", 0x9000c, AgentDown)
		s.pass(4*time.Second + time.Second/4)
		status("up again", 0, AgentReady)
	})
}
