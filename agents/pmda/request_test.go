package pmda_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// Check and Done are called before and after each request, BeforeFetch at the start
// of a fetch.
func TestHooks(t *testing.T) {
	var calls []string
	var checkErr error
	tr, _ := start(t, pmda.Config{
		Metrics: []pmda.Metric{row(0, sets(1))},
		Check: func(_ context.Context, r *pmda.Request) error {
			calls = append(calls, fmt.Sprint("check ", r.Origin.Client))
			return checkErr
		},
		Done: func(*pmda.Request) { calls = append(calls, "done") },
		BeforeFetch: func(_ context.Context, _ *pmda.Request, ids []pdu.PMID) error {
			calls = append(calls, fmt.Sprint(len(ids)))
			return nil
		},
	})
	fetch(t, tr, id(0, 0), id(0, 0))
	if err := transporttest.Do(tr, agents.Origin{Client: 2}, &pdu.DescReq{PMID: id(0, 0)}, new(pdu.Desc)); err != nil {
		t.Error(err)
	}
	checkErr = pdu.ErrnoAgain
	if err := transporttest.Do(tr, agents.Origin{Client: 3}, &pdu.Fetch{PMIDs: []pdu.PMID{id(0, 0)}}, new(pdu.Result)); err != error(pdu.ErrnoAgain) {
		t.Errorf("after Check failed: %v", err)
	}
	want := []string{"check 1", "2", "done", "check 2", "done", "check 3"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// A Client and its attributes are kept until it disconnects.
func TestClients(t *testing.T) {
	var ended []int32
	count := row(0, func(_ context.Context, v *pmda.Value) error {
		c := v.Request().Client()
		n, _ := c.Data.(int)
		c.Data = n + 1
		uid, ok := c.UID()
		if !ok {
			uid = 1000
		}
		v.SetInt(int64(n*10000 + uid))
		if c.Container() == "box" {
			v.SetInt(7)
		}
		return nil
	})
	tr, _ := start(t, pmda.Config{
		Metrics:   []pmda.Metric{count},
		WantAttrs: true,
		EndClient: func(c *pmda.Client) { ended = append(ended, c.Number) },
	})
	if !tr.WantsAttrs() {
		t.Error("the agent does not want attributes")
	}
	step := func(want string) {
		t.Helper()
		if got := show(fetch(t, tr, id(0, 0)).Sets[0]); got != "-1="+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	attr := func(code pdu.AttrCode, value string) {
		tr.Notify(transport.Notice{Client: 1, Attrs: []pdu.Attr{{Code: code, Value: []byte(value)}}})
	}
	step("1000")
	attr(pdu.AttrUserID, "7")
	step("10007")
	attr(pdu.AttrContainer, "box")
	step("7")
	attr(pdu.AttrContainer, "")
	step("30007")
	tr.Notify(transport.Notice{Client: 5, End: true}) // has sent no request
	tr.Notify(transport.Notice{Client: 1, End: true})
	step("1000")
	attr(pdu.AttrUserID, "nobody")
	step("11000")
	// Clients that have only requested a descriptor or a text are kept, too.
	transporttest.Do(tr, agents.Origin{Client: 8}, &pdu.DescReq{PMID: id(0, 0)}, new(pdu.Desc))
	transporttest.Do(tr, agents.Origin{Client: 0}, &pdu.TextReq{Ident: uint32(id(0, 0)), Kind: pdu.TextPMID}, new(pdu.Text))
	tr.Notify(transport.Notice{Client: 8, End: true})
	tr.Notify(transport.Notice{Client: 0, End: true})
	if !slices.Equal(ended, []int32{1, 8, 0}) {
		t.Errorf("ended: %v, want 1, 8 and 0", ended)
	}
}

// The next fetch after a change has the flags in its reply, once.
func TestChanged(t *testing.T) {
	labels, names := false, false
	tr, _ := start(t, pmda.Config{
		Metrics: []pmda.Metric{row(0, sets(1))},
		BeforeFetch: func(_ context.Context, r *pmda.Request, _ []pdu.PMID) error {
			if labels {
				r.MarkLabelsChanged()
			}
			if names {
				r.MarkNamesChanged()
			}
			labels, names = false, false
			return nil
		},
	})
	for _, tt := range []struct {
		labels, names bool
		want          int32
	}{
		{false, false, 0},
		{true, false, pdu.StateLabelChange},
		{false, false, 0},
		{true, true, pdu.StateLabelChange | pdu.StateNamesChange},
	} {
		labels, names = tt.labels, tt.names
		if got := fetch(t, tr, id(0, 0)).Sec; got != tt.want {
			t.Errorf("flags %#x, want %#x", got, tt.want)
		}
	}
}

// A Source that needs another one reads it first, and both are read once.
func TestSourceReadsAnother(t *testing.T) {
	var reads []string
	first := &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		reads = append(reads, "first")
		return nil
	}}
	second := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		err := r.ReadSource(ctx, first)
		reads = append(reads, "second")
		return err
	}}
	a, b, c := row(0, sets(1)), row(1, sets(2)), row(2, sets(3))
	a.Source, b.Source, c.Source = second, first, second
	tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{a, b, c}})
	for range 2 {
		reads = nil
		fetch(t, tr, id(0, 0), id(0, 1), id(0, 2))
		if got := strings.Join(reads, " "); got != "first second" {
			t.Errorf("read %q", got)
		}
	}
	reads = nil
	fetch(t, tr, id(0, 1))
	if got := strings.Join(reads, " "); got != "first" {
		t.Errorf("read %q", got)
	}
}

// A second agent reads a Source that the first one has read. This happens if a
// plugin keeps Sources in package variables and is started again.
func TestSourceOfFormerAgent(t *testing.T) {
	reads := 0
	s := &pmda.Source{Read: func(context.Context, *pmda.Request) error { reads++; return nil }}
	m := row(0, sets(1))
	m.Source = s
	for n := range 2 {
		tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
		if fetch(t, tr, id(0, 0)); reads != n+1 {
			t.Errorf("read %d times for %d agents", reads, n+1)
		}
	}
}
