package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// stringsAgent returns an agent whose metric with item n is a string of n bytes.
func stringsAgent(t *testing.T, domain int, sizes ...int) agents.Agent {
	t.Helper()
	conf := pmda.Config{Domain: domain}
	for _, n := range sizes {
		text := strings.Repeat("x", n)
		conf.Metrics = append(conf.Metrics, pmda.Metric{Item: n, Type: pdu.MetricString, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error { v.SetString(text); return nil }})
	}
	a, err := pmda.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A reply that would be too long, of an agent or of several together, is
// PM_ERR_TOOBIG, and the log names the client.
func TestMaxReply(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.MaxReply = 1000 }, map[int]func(wire.Conn){
		240: serveAgent(stringsAgent(t, 240, 100, 600, 900, 1000)),
		241: serveAgent(stringsAgent(t, 241, 100, 600)),
	})
	r.awaitStarts()
	r.dial()
	c := r.dial()
	c.send(&pdu.Profile{})
	for _, tt := range []struct {
		ids  []pdu.PMID
		want string // without the values
	}{
		{[]pdu.PMID{id(240, 900)}, "240.0.900="},
		{[]pdu.PMID{id(240, 1000)}, "240.0.1000=PM_ERR_TOOBIG"},
		{[]pdu.PMID{id(240, 100), id(241, 100), id(240, 600)}, "240.0.100= 241.0.100= 240.0.600="},
		{[]pdu.PMID{id(240, 1000), id(241, 100)}, "240.0.1000=PM_ERR_TOOBIG 241.0.100="},
		{[]pdu.PMID{id(240, 600), id(241, 600)}, "PM_ERR_TOOBIG"},
		{[]pdu.PMID{id(240, 100), id(241, 100)}, "240.0.100= 241.0.100="},
	} {
		for _, m := range []pdu.Message{&pdu.Fetch{PMIDs: tt.ids}, &pdu.HighResFetch{PMIDs: tt.ids}} {
			if got := strings.ReplaceAll(show(c.do(m)), "x", ""); got != tt.want {
				t.Errorf("%v of %v: %s, want %s", m.Type(), tt.ids, got, tt.want)
			}
		}
	}
	r.awaitLogged(t, `client[1] 127.0.0.1: the reply of agent "t" (dom 240) to FETCH would have more than 1000 bytes`)
	if n := r.opens[240]; n != 1 {
		t.Errorf("the agent was started %d times", n)
	}
}

// The limit holds for names, too.
func TestMaxReplyOfNames(t *testing.T) {
	var size int
	for _, less := range []int{-1, 0, 1} {
		r := newHarness(t, func(c *Config) {
			if less >= 0 {
				c.MaxReply = size - less
			}
		}, nil)
		r.awaitStarts()
		c := r.dial()
		got := c.do(&pdu.PMNSTraverse{})
		if less > 0 {
			if show(got) != "PM_ERR_TOOBIG" {
				t.Errorf("got %s", show(got))
			}
			r.awaitLogged(t, "the reply to PMNS_TRAVERSE would have more than")
			continue
		}
		b, err := pdu.Append(nil, 0, got)
		if err != nil || len(got.(*pdu.PMNSNames).Names) < 10 {
			t.Fatalf("got %s, %v", show(got), err)
		}
		size = len(b)
	}
}
