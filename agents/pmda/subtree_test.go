package pmda_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// named returns a metric with a name, a text and the value n.
func named(cluster, item int, name string, n uint64) pmda.Metric {
	m := row(item, sets(n))
	m.Cluster, m.Name, m.OneLine = cluster, name, "text of "+name
	return m
}

// names sends a request about names and returns the reply as text.
func names(tr transport.Transport, req pdu.Message) string {
	var err error
	switch req.(type) {
	case *pdu.PMNSNames:
		var r pdu.PMNSIDs
		if err = transporttest.Do(tr, agents.Origin{}, req, &r); err == nil {
			return fmt.Sprint(r.PMIDs)
		}
	default:
		var r pdu.PMNSNames
		if err = transporttest.Do(tr, agents.Origin{}, req, &r); err == nil {
			return fmt.Sprint(r.Names, r.Status)
		}
	}
	return err.Error()
}

// The metrics of a Subtree and their names can change.
func TestSubtree(t *testing.T) {
	jobs := &pmda.Subtree{Prefix: "job"}
	next := []pmda.Metric{named(7, 0, "job.b.size", 1), named(7, 1, "job.a", 2), named(7, 2, "job.b.age", 3), named(7, 1, "job.same", 2)}
	jobs.Source = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		if next == nil {
			return nil
		}
		defer func() { next = nil }()
		return jobs.Set(next)
	}}
	fixed := &pmda.Subtree{Prefix: "other"}
	if err := fixed.Set([]pmda.Metric{named(8, 0, "other", 9)}); err != nil {
		t.Fatal(err)
	}
	tr, log := start(t, pmda.Config{Name: "jobs", Metrics: []pmda.Metric{row(0, sets(4))}, Subtrees: []*pmda.Subtree{jobs, fixed}})
	transporttest.Test(t, tr, id(0, 0), id(7, 0), id(7, 1), id(7, 2), id(8, 0))

	unknown, noPMID := pdu.ErrnoName.Error(), pdu.ErrnoPMID.Error()
	tests := []struct {
		req  pdu.Message
		want string
	}{
		{&pdu.PMNSNames{Names: []string{"job.b.size"}}, "[400.7.0]"},
		{&pdu.PMNSNames{Names: []string{"job.same"}}, "[400.7.1]"},
		{&pdu.PMNSNames{Names: []string{"other"}}, "[400.8.0]"},
		{&pdu.PMNSNames{Names: []string{"job.b"}}, unknown},
		{&pdu.PMNSNames{Names: []string{"job.c"}}, unknown},
		{&pdu.PMNSIDs{PMIDs: []pdu.PMID{id(7, 1)}}, "[job.a job.same] []"},
		{&pdu.PMNSIDs{PMIDs: []pdu.PMID{id(0, 0)}}, noPMID}, // its name is in the PMNS
		{&pdu.PMNSChild{Name: "job", Subtype: 1}, "[b a same] [1 0 0]"},
		{&pdu.PMNSChild{Name: "job"}, "[b a same] []"},
		{&pdu.PMNSChild{Name: "job.b", Subtype: 1}, "[size age] [0 0]"},
		{&pdu.PMNSChild{Name: "job.a", Subtype: 1}, "[] []"},
		{&pdu.PMNSChild{Name: "jo"}, unknown},
		{&pdu.PMNSTraverse{Name: "job"}, "[job.b.size job.b.age job.a job.same] []"},
		{&pdu.PMNSTraverse{Name: "job.a"}, "[job.a] []"},
		{&pdu.PMNSTraverse{Name: "other.x"}, unknown},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%T%v", tt.req, tt.req), func(t *testing.T) {
			if got := names(tr, tt.req); got != tt.want {
				t.Errorf("%T%v: %s, want %s", tt.req, tt.req, got, tt.want)
			}
		})
	}
	var text pdu.Text
	if err := transporttest.Do(tr, agents.Origin{}, &pdu.TextReq{Ident: uint32(id(7, 0)), Kind: pdu.TextPMID | pdu.TextOneLine}, &text); err != nil || text.Text != "text of job.b.size" {
		t.Errorf("text: %q, %v", text.Text, err)
	}

	next = []pmda.Metric{named(7, 5, "job.new", 6)}
	r := fetch(t, tr, id(7, 0), id(7, 5), id(0, 0))
	if got := show(r.Sets[0]) + "," + show(r.Sets[1]) + "," + show(r.Sets[2]); got != "PM_ERR_PMID,-1=6,-1=4" || r.Sec != pdu.StateNamesChange {
		t.Errorf("after a change: %s, flags %#x", got, r.Sec)
	}

	// If Set fails, nothing changes.
	next = []pmda.Metric{named(7, 6, "job.x", 6), named(9, 0, "elsewhere", 1)}
	if got := names(tr, &pdu.PMNSTraverse{Name: "job"}); got != "[job.new] []" {
		t.Errorf("after a failure: %s", got)
	}
	if !strings.Contains(log.String(), "jobs: names below job: metric elsewhere: its name is not below job") {
		t.Errorf("log: %s", log)
	}
}

// A metric may call Set while it is fetched.
func TestSubtreeInFetch(t *testing.T) {
	jobs := &pmda.Subtree{Prefix: "job"}
	next := uint64(1)
	toggle := row(0, func(_ context.Context, v *pmda.Value) error {
		v.SetUint(0)
		return jobs.Set([]pmda.Metric{named(1, int(next), "job.a", next)})
	})
	tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{toggle}, Subtrees: []*pmda.Subtree{jobs}})
	for _, tt := range []struct {
		next uint64
		want string
	}{{1, "-1=1 PM_ERR_PMID"}, {2, "PM_ERR_PMID -1=2"}, {2, "PM_ERR_PMID -1=2"}, {3, "PM_ERR_PMID PM_ERR_PMID"}, {1, "-1=1 PM_ERR_PMID"}} {
		next = tt.next
		r := fetch(t, tr, id(0, 0), id(1, 1), id(1, 2))
		if got := show(r.Sets[1]) + " " + show(r.Sets[2]); got != tt.want {
			t.Errorf("with %d: %s, want %s", tt.next, got, tt.want)
		}
	}
}

// Set and New reject wrong names and numbers. A Subtree whose Source fails does not
// affect other metrics.
func TestSubtreeErrors(t *testing.T) {
	tests := []struct {
		metrics []pmda.Metric
		want    string
	}{
		{[]pmda.Metric{named(1, 0, "job.a", 1), named(1, 1, "job.a", 1)}, "another metric has the name job.a"},
		{[]pmda.Metric{named(1, 0, "job.a.b", 1), named(1, 1, "job.a", 1)}, "there are names below job.a"},
		{[]pmda.Metric{named(1, 0, "job.a", 1), named(1, 1, "job.a.b", 1)}, "job.a is a metric"},
		{[]pmda.Metric{named(1, 0, "job..b", 1)}, `"job..b" is not a valid name`},
		{[]pmda.Metric{named(1, 0, "job.", 1)}, `"job." is not a valid name`},
		{[]pmda.Metric{named(1, 0, "jobs.a", 1)}, "its name is not below job"},
		{[]pmda.Metric{{Name: "job.x"}}, "semantics 0"},
		{[]pmda.Metric{func() pmda.Metric { m := named(0, 0, "job.x", 1); m.Type = pdu.MetricDouble; return m }()}, "its number 400.0.0 is that of another metric"},
	}
	for _, tt := range tests {
		jobs := &pmda.Subtree{Prefix: "job"}
		if err := jobs.Set(tt.metrics); err != nil {
			t.Fatal(err)
		}
		_, err := pmda.New(pmda.Config{Domain: domain, Metrics: []pmda.Metric{row(0, nil)}, Subtrees: []*pmda.Subtree{jobs}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.metrics, err, tt.want)
		}
	}

	bad := &pmda.Subtree{Prefix: "job", Source: &pmda.Source{Read: func(context.Context, *pmda.Request) error { return errors.New("gone") }}}
	tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{row(0, sets(1))}, Subtrees: []*pmda.Subtree{bad}})
	if got := show(fetch(t, tr, id(0, 0)).Sets[0]); got != "-1=1" {
		t.Errorf("a metric outside of the Subtree: %q", got)
	}
}
