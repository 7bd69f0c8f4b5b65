package mmv

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// A client is an agent for a directory, and a client of it.
type client struct {
	testing.TB
	*agent
	log   bytes.Buffer
	flags int32 // state change flags of the last fetch
}

func newAgent(tb testing.TB, o Options) *agent {
	tb.Helper()
	a, err := open(70, o)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func newClient(tb testing.TB, dir string) *client {
	tb.Helper()
	c := &client{TB: tb}
	a := newAgent(tb, Options{Dir: dir, Log: slog.New(serve.NewHandler(&c.log, "pmda", slog.LevelInfo))})
	// A clock that steps, so that tests do not depend on how much time requests take:
	// the budget is as full as at the start before each request.
	base, n := time.Now(), 0
	a.now = func() time.Time { n++; return base.Add(time.Duration(n) * 10 * time.Second) }
	c.agent = a
	if err := a.refresh(tb.Context(), false); err != nil {
		tb.Fatal(err)
	}
	return c
}

func do[T any](c *client, req pdu.Message) (reply T, err error) {
	c.Helper()
	m, ok := any(&reply).(pdu.Message)
	if !ok {
		c.Fatalf("%T is no message", &reply)
	}
	err = agenttest.Do(c.agent, agents.Origin{}, req, m)
	return reply, err
}

// names returns the names of all metrics but the control metrics.
func (c *client) names() []string {
	c.Helper()
	reply, err := do[pdu.PMNSNames](c, &pdu.PMNSTraverse{Name: "mmv"})
	if err != nil {
		c.Fatal(err)
	}
	list := slices.DeleteFunc(reply.Names, func(s string) bool { return strings.HasPrefix(s, "mmv.control.") })
	slices.Sort(list)
	return list
}

func (c *client) id(name string) pdu.PMID {
	c.Helper()
	reply, err := do[pdu.PMNSIDs](c, &pdu.PMNSNames{Names: []string{name}})
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	return reply.PMIDs[0]
}

// values fetches metrics, which need not have names, and returns the values of each as text.
func (c *client) values(ids ...pdu.PMID) (list []string) {
	c.Helper()
	reply, err := do[pdu.Result](c, &pdu.Fetch{PMIDs: ids})
	if err != nil {
		c.Fatal(err)
	}
	c.flags = reply.Sec
	for _, s := range reply.Sets {
		d, _ := do[pdu.Desc](c, &pdu.DescReq{PMID: s.PMID})
		var b strings.Builder
		if s.Err != 0 {
			fmt.Fprintf(&b, "%v", s.Err)
		}
		for i, v := range s.Values {
			if i > 0 {
				b.WriteByte(' ')
			}
			if v.Inst != pdu.NoInst {
				fmt.Fprintf(&b, "%d=", v.Inst)
			}
			b.WriteString(text(d.ValueType, s.Format, v))
		}
		list = append(list, b.String())
	}
	return list
}

func text(typ pdu.MetricType, format int32, v pdu.Value) string {
	if format != pdu.FormatInsitu {
		typ = v.Type
	}
	var n uint64
	for _, b := range v.Block {
		n = n<<8 | uint64(b)
	}
	switch typ {
	case pdu.Metric32:
		return fmt.Sprint(int32(v.Word))
	case pdu.MetricU32:
		return fmt.Sprint(v.Word)
	case pdu.Metric64:
		return fmt.Sprint(int64(n))
	case pdu.MetricU64:
		return fmt.Sprint(n)
	case pdu.MetricFloat:
		return fmt.Sprint(math.Float32frombits(uint32(n)))
	case pdu.MetricDouble:
		return fmt.Sprint(math.Float64frombits(n))
	case pdu.MetricString:
		return fmt.Sprintf("%q", strings.TrimSuffix(string(v.Block), "\x00"))
	}
	return fmt.Sprintf("type %d", typ)
}

// value returns the values of one metric.
func (c *client) value(name string) string {
	c.Helper()
	return c.values(c.id(name))[0]
}

// want compares the values of metrics.
func (c *client) want(values map[string]string) {
	c.Helper()
	for name, want := range values {
		if got := c.value(name); got != want {
			c.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func (c *client) store(id pdu.PMID, values ...pdu.Value) error {
	r := &pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Values: values}}}
	if len(values) > 0 && values[0].Block != nil {
		r.Sets[0].Format = 1
	}
	return c.Store(context.Background(), agents.Origin{}, r)
}
