package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// What Changed is told follows the agents and the problems, and it is not
// called for each of many changes.
func TestHealth(t *testing.T) {
	said := make(chan Health, 100)
	var calls atomic.Int32
	var rains atomic.Bool
	rains.Store(true)
	r := newHarness(t, func(c *Config) {
		c.Manager.AgentsStarted = func(h Health) { said <- h }
		c.Manager.Changed = func(h Health) { calls.Add(1); said <- h }
		c.Manager.Problems = func() []string {
			if rains.Load() {
				return []string{"it rains"}
			}
			return nil
		}
		c.Agents.Note = func(domain int) string {
			return map[int]string{242: "runs as bob"}[domain]
		}
	}, nil)
	until := func(want Health) {
		t.Helper()
		var got Health
		for deadline := time.After(testutil.Hangs); !reflect.DeepEqual(got, want); {
			select {
			case got = <-said:
			case <-deadline:
				t.Fatalf("the last was %+v, want %+v", got, want)
			}
		}
	}
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	a := r.routes.Load().Agent(241)
	a.Conn().Disconnect(errors.New("the test says so"))
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"u is down"}, Problems: []string{"it rains", "v runs as bob"}})
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	r.write("pmcd.conf", "nonsense\n")
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains",
		"the last reload failed: Configuration file '" + r.dir + "/pmcd.conf' has errors: " + r.dir + "/pmcd.conf:1:9: expected domain number for \"nonsense\" agent; the configuration that was read before stays in use: correct the file (pmcd -v shows its mistakes), then SIGHUP", "v runs as bob"}})
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\nv 242 pipe binary v\n")
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	host{r.Daemon}.SetFenced(240, true)
	rains.Store(false)
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"t is fenced"}, Problems: []string{"v runs as bob"}})

	// As many clients as there may be are a problem.
	r.acceptor.Load().SetLimit(1)
	c := r.dial()
	full := "1 clients are connected, as many as RLIMIT_NOFILE allows beside what agents need; others wait until some leave; raise it (LimitNOFILE=, ulimit -n) and restart pmcd"
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"t is fenced"}, Problems: []string{full, "v runs as bob"}})
	if got := r.Problems(); !slices.Equal(got, []string{full}) {
		t.Errorf("problems %q", got)
	}
	c.Conn.Close()
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"t is fenced"}, Problems: []string{"v runs as bob"}})

	before, began := calls.Load(), time.Now()
	for i := range 10000 {
		host{r.Daemon}.SetFenced(240, i%2 == 0)
	}
	until(Health{Agents: 4, Ready: 4, Problems: []string{"v runs as bob"}})
	if n, most := calls.Load()-before, int32(time.Since(began)/healthTime)+2; n > most {
		t.Errorf("called %d times more, at most %d expected", n, most)
	}
}

// A service manager that does not receive its messages delays no client: the liveness
// probe goes on.
func TestSlowManager(t *testing.T) {
	reported, taken := make(chan struct{}, 100), make(chan struct{})
	r := newHarness(t, func(c *Config) {
		c.Manager.Changed = func(Health) {
			reported <- struct{}{}
			<-taken
		}
	}, nil)
	take := sync.OnceFunc(func() { close(taken) })
	defer take()
	r.awaitStarts()
	r.HealthChanged()
	<-reported
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	if err := r.CheckLiveness(ctx); err != nil {
		t.Errorf("liveness probe: %v", err)
	}
	r.HealthChanged()
	take()
	<-reported // what has changed meanwhile is told, too
}
