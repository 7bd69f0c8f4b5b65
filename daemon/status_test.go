package daemon

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// The times of requests: the mean follows the last ones, the maximum is
// forgotten after a minute, or two.
func TestLoad(t *testing.T) {
	var l load
	now := time.Now()
	check := func(when string, after time.Duration, requests uint64, mean, most time.Duration) {
		t.Helper()
		var st AgentStatus
		l.report(&st, now.Add(after))
		if st.Requests != requests || (st.Mean-mean).Abs() > 10*time.Microsecond || st.Max != most {
			t.Errorf("%s: %d requests, mean %v, max %v, want %d, %v, %v", when, st.Requests, st.Mean, st.Max, requests, mean, most)
		}
	}
	serve := func(at, took time.Duration) { l.served(now.Add(at-took), now.Add(at-took), now.Add(at)) }
	check("none", 0, 0, 0, 0)
	serve(time.Second, 32*time.Millisecond)
	check("the first", 2*time.Second, 1, 32*time.Millisecond, 32*time.Millisecond)
	serve(3*time.Second, 16*time.Millisecond)
	check("a shorter one", 4*time.Second, 2, 31*time.Millisecond, 32*time.Millisecond)
	for range 100 {
		serve(5*time.Second, time.Millisecond)
	}
	check("many short ones", 6*time.Second, 102, time.Millisecond+50*time.Microsecond, 32*time.Millisecond)
	serve(70*time.Second, 2*time.Millisecond)
	check("the minute after", 71*time.Second, 103, time.Millisecond+110*time.Microsecond, 32*time.Millisecond)
	check("two minutes after", 125*time.Second, 103, time.Millisecond+110*time.Microsecond, 2*time.Millisecond)
	check("an hour after", time.Hour, 103, time.Millisecond+110*time.Microsecond, 0)
}

// The usual time follows answers that were waited for, or came in no more than that.
func TestLoadUsual(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name         string
		asked, took  time.Duration // since the request
		before, then time.Duration
	}{
		{"waited for", 0, 32, 16, 17},
		{"waited for last", 16, 32, 16, 17},
		{"was there", 31, 32, 16, 16},
		{"was there in less", 31, 32, 48, 47},
		{"received by another", 33, 32, 16, 17},
	}
	for _, tt := range tests {
		l := load{requests: 1, mean: tt.before * time.Millisecond}
		l.served(now, now.Add(tt.asked*time.Millisecond), now.Add(tt.took*time.Millisecond))
		if got := l.usual(); got != tt.then*time.Millisecond {
			t.Errorf("%s: %v, want %v ms", tt.name, got, int64(tt.then))
		}
	}
}

// What Agents says of agents in all states.
func TestAgentStatus(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.RequestTimeout = 300 * time.Millisecond
		c.LateGrace = time.Hour
	}, map[int]func(wire.Conn){
		241: script(241, pdu.TypeFetch, func(c wire.Conn, _ []byte) { hold(c) }),
		242: script(242, pdu.TypeFetch, func(c wire.Conn, _ []byte) { c.Write(errorPDU(pdu.ErrnoNotReady)); hold(c) }),
	})
	r.settled()
	c := r.dial()
	c.send(&pdu.Profile{})
	for range 5 {
		c.fetch(id(240, 1))
	}
	c.fetch(id(240, 1), id(241, 1), id(242, 1))
	c.fetch(id(241, 1))
	eventually(t, "late and not ready", func() bool {
		all := r.Agents()
		return all[2].State == AgentLate && all[3].State == AgentNotReady
	})
	host{r.Daemon}.SetFenced(240, true)
	all := r.Agents()
	for i, want := range []AgentStatus{
		{Name: "pmcd", Domain: 2, Kind: "dso", State: AgentReady},
		{Name: "t", Domain: 240, Kind: "pipe", State: AgentFenced, Requests: 6},
		{Name: "u", Domain: 241, Kind: "pipe", State: AgentLate, Errors: 2, Abandoned: 1},
		{Name: "v", Domain: 242, Kind: "pipe", State: AgentNotReady, Errors: 1},
	} {
		got := all[i]
		if i == 1 && (got.Mean <= 0 || got.Max < got.Mean || got.Max > time.Minute) {
			t.Errorf("%s: mean %v, max %v", got.Name, got.Mean, got.Max)
		}
		if age := time.Since(got.Since); age < 0 || age > time.Minute {
			t.Errorf("%s: since %v", got.Name, got.Since)
		}
		got.Since, got.Mean, got.Max = time.Time{}, 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}

	a := r.routes.Load().agent(240)
	r.drop(a, a.link.Load(), errors.New("the test says so"))
	eventually(t, "the reason", func() bool { return r.Agents()[1].LastError != "" })
	st := r.Agents()[1]
	if st.State != AgentDown || st.Failures != 1 || !st.NextStart.IsZero() || time.Since(st.ErrorAt) > time.Minute ||
		!strings.HasPrefix(st.LastError, "the test says so; it was up for ") {
		t.Errorf("down: %+v", st)
	}
	r.reloaded()
	if st := r.Agents()[1]; st.State != AgentReady || st.Restarts != 1 || st.LastError == "" {
		t.Errorf("up again: %+v", st)
	}
}
