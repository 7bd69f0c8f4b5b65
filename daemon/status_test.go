package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// What Agents says of agents in all states.
func TestAgentStatus(t *testing.T) {
	r := newHarness(t, func(c *Config) {
		c.Agents.RequestTimeout = time.Second
		c.Agents.LateGrace = time.Hour
	}, map[int]func(wire.Conn){
		241: script(241, pdu.TypeFetch, func(c wire.Conn, _ []byte) { hold(c) }),
		242: script(242, pdu.TypeFetch, func(c wire.Conn, _ []byte) { c.Write(errorPDU(pdu.ErrnoNotReady)); hold(c) }),
	})
	r.awaitStarts()
	c := r.dialValues()
	for range 5 {
		c.fetch(id(240, 1))
	}
	c.fetch(id(240, 1), id(241, 1), id(242, 1))
	c.fetch(id(241, 1))
	testutil.Eventually(t, "late and not ready", func() bool {
		all := r.Status().Agents
		return all[2].State == AgentLate && all[3].State == AgentNotReady
	})
	host{r.Daemon}.SetFenced(240, true)
	all := r.Status().Agents
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

	a := r.routes.Load().Agent(240)
	a.Conn().Disconnect(errors.New("the test says so"))
	testutil.Eventually(t, "the reason", func() bool { return r.Status().Agents[1].LastError != "" })
	st := r.Status().Agents[1]
	if st.State != AgentDown || st.Failures != 1 || !st.NextStart.IsZero() || time.Since(st.ErrorAt) > time.Minute ||
		!strings.HasPrefix(st.LastError, "the test says so; it was up for ") {
		t.Errorf("down: %+v", st)
	}
	// So it does with a file that has changed, if the line of the agent has not.
	conf, err := os.ReadFile(filepath.Join(r.dir, "pmcd.conf"))
	r.must(err)
	for restarts, more := range []string{"", "# another line\n"} {
		if more != "" {
			a.Conn().Disconnect(errors.New("the test says so"))
			testutil.Eventually(t, "down again", func() bool { return r.Status().Agents[1].State == AgentDown })
			r.write("pmcd.conf", string(conf)+more)
		}
		r.reloaded()
		if st := r.Status().Agents[1]; st.State != AgentReady || st.Restarts != restarts+1 || st.LastError == "" {
			t.Errorf("up again after %q: %+v", more, st)
		}
	}
}
