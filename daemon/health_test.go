package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// What Changed is told follows the agents and the problems, and it is not
// called for each of many changes.
func TestHealth(t *testing.T) {
	said := make(chan Health, 100)
	var calls atomic.Int32
	r := newRig(t, func(c *Config) {
		c.Settled = func(h Health) { said <- h }
		c.Changed = func(h Health) { calls.Add(1); said <- h }
		c.Problems = []string{"it rains"}
		open := c.Open
		c.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*Link, error) {
			l, err := open(ctx, spec, opt)
			if err == nil && spec.Domain == 242 {
				l.Note = "runs as bob"
			}
			return l, err
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
	r.drop(a, a.link.Load(), errors.New("the test says so"))
	until(Health{Agents: 4, Ready: 3, Unwell: []string{"u is down"}, Problems: []string{"it rains", "v runs as bob"}})
	r.Reload()
	until(Health{Agents: 4, Ready: 4, Problems: []string{"it rains", "v runs as bob"}})

	host{r.Daemon}.SetFenced(240, true)
	r.SetProblem("a", "one")
	r.SetProblem("b", "two")
	r.SetProblem("a", "three")
	r.SetProblem("start 0", "")
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
