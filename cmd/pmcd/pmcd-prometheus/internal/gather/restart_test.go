package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

const restarted = pdu.StateAddAgent | pdu.StateRestartAgent

// twoAgents is a fake with n metrics of the agent 5, all below a, and as many of the agent 6, below b.
func twoAgents(n int) *fake {
	f := &fake{down: make(map[int]bool), dynamic: make(map[int]bool), labels: make(map[level][]pmapi.Label)}
	for _, domain := range []int{5, 6} {
		for i := range n {
			m := single(i, fmt.Sprintf("%c.m%02d", 'a'+domain-5, i), pdu.SemInstant, int32(1))
			m.desc.PMID = pdu.NewPMID(domain, 0, i)
			f.metrics = append(f.metrics, m)
		}
	}
	return f
}

// scrape returns how many families of each agent there are in a scrape with a time limit.
func (r *harness) scrape(limit time.Duration) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	families, err := r.Gather(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	count := map[byte]int{}
	for _, f := range families {
		count[f.GetName()[0]]++
	}
	return fmt.Sprintf("a %d, b %d", count['a'], count['b'])
}

// Each scrape has all values that there are while an agent is started again, although there is not
// enough time to ask for all help texts. Only those of that agent are asked for again.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dynamic bool
		tops    []string
	}{
		{"names of pmcd", false, []string{""}},
		{"names of the agent", true, []string{""}},
		{"names of the agent, by an argument", true, []string{"a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := twoAgents(20)
				f.dynamic[6] = tt.dynamic
				r := newHarness(t, f, tt.tops...)
				r.scrape(time.Hour)
				f.slow = time.Second
				before := maps.Clone(f.texts)
				f.down[6], f.changes = true, pdu.StateDropAgent
				for range 3 {
					if got := r.scrape(8 * time.Second); got != "a 20, b 0" {
						t.Errorf("without an agent: %s", got)
					}
					time.Sleep(15 * time.Second)
				}
				if !maps.Equal(f.texts, before) {
					t.Errorf("without an agent: requests for texts %v, before %v", f.texts, before)
				}
				f.down[6], f.changes = false, restarted
				f.labels[level{pmapi.LabelDomain, uint32(6)}] = []pmapi.Label{{Name: "k", Value: "1"}}
				for f.texts[6] < before[6]+20 && f.calls["Fetch"] < 100 {
					if got := r.scrape(8 * time.Second); got != "a 20, b 20" {
						t.Errorf("with the agent: %s", got)
					}
					time.Sleep(15 * time.Second)
				}
				for range 3 {
					r.scrape(8 * time.Second)
				}
				if f.texts[5] != before[5] || f.texts[6] != before[6]+20 {
					t.Errorf("requests for texts %v, before %v; want 20 more of domain 6", f.texts, before)
				}
				if got := strings.Count(r.samples(), `{k="1"}`); got != 20 {
					t.Errorf("%d values have the new label", got)
				}
			})
		})
	}
}

// If pmcd does not tell which agent was started again, nor that labels of all have changed, all are
// asked again, and are served meanwhile.
func TestUnseenRestart(t *testing.T) {
	for _, changes := range []int32{restarted, pdu.StateLabelChange, pdu.StateDropAgent | restarted} {
		synctest.Test(t, func(t *testing.T) {
			f := twoAgents(10)
			r := newHarness(t, f)
			r.scrape(time.Hour)
			f.slow, f.changes = time.Second, changes
			for i := range f.metrics {
				f.metrics[i].help = "other"
			}
			for n := 0; f.calls["Text"] < 40 && n < 100; n++ {
				if got := r.scrape(8 * time.Second); got != "a 10, b 10" {
					t.Errorf("changes %#x: %s", changes, got)
				}
			}
			r.scrape(time.Hour)
			if got := strings.Count(r.text(), "other"); got != 20 || f.calls["Text"] != 40 {
				t.Errorf("changes %#x: %d metrics have the new help text, after %d requests", changes, got, f.calls["Text"])
			}
		})
	}
}

// Names that have changed alone are no reason to ask for texts again.
func TestOtherNames(t *testing.T) {
	f := twoAgents(10)
	r := newHarness(t, f)
	r.scrape(time.Hour)
	f.metrics = slices.Delete(f.metrics, 0, 1) // its agent answers that it does not exist
	f.changes = pdu.StateNamesChange
	if got := r.scrape(time.Hour); got != "a 9, b 10" || f.calls["Text"] != 20 || len(f.fetched) != 19 {
		t.Errorf("%s, %d requests for texts, %d metrics fetched", got, f.calls["Text"], len(f.fetched))
	}
}

// A metric does not keep a name that it has no longer.
func TestLostName(t *testing.T) {
	f := twoAgents(1)
	second := f.metrics[0]
	second.name = "a.second"
	f.metrics = append(f.metrics, second)
	for _, top := range []string{"", "a.m00"} { // with the second argument, only its PMID has the other name
		f.metrics = slices.Clone(f.metrics)
		r := newHarness(t, f, top)
		if got := r.samples(); !strings.Contains(got, "a_m00 1\n") || !strings.Contains(got, "a_second 1\n") {
			t.Errorf("%q: %s", top, got)
		}
		all := f.metrics
		f.metrics, f.changes = f.metrics[:2], pdu.StateNamesChange
		if got := r.samples(); !strings.Contains(got, "a_m00 1\n") || strings.Contains(got, "a_second") {
			t.Errorf("%q, later: %s", top, got)
		}
		f.metrics = all
	}
}

// The labels of the host are those of pmcd, whatever else is asked for again.
func TestHostLabels(t *testing.T) {
	f := twoAgents(10)
	host := level{pmapi.LabelContext, 0}
	f.noLabel = pdu.ErrnoAgain
	r := newHarness(t, f)
	if _, err := r.Gather(t.Context()); !errors.Is(err, pdu.ErrnoAgain) {
		t.Errorf("without labels of the host: %v", err)
	}
	f.noLabel, f.labels[host] = nil, []pmapi.Label{{Name: "hostname", Value: `"a"`}}
	for _, tt := range []struct {
		changes int32
		label   string
		err     error
		want    string
	}{
		{0, "a", nil, "a"}, {pdu.StateLabelChange | pdu.StateHostname, "b", nil, "b"}, {restarted, "c", pdu.ErrnoAgain, "b"}, {restarted, "c", nil, "c"},
	} {
		f.changes, f.noLabel, f.labels[host] = tt.changes, tt.err, []pmapi.Label{{Name: "hostname", Value: `"` + tt.label + `"`}}
		if got := r.samples(); strings.Count(got, `{hostname="`+tt.want+`"} 1`) != 20 {
			t.Errorf("changes %#x, hostname %s, %v: %s", tt.changes, tt.label, tt.err, got)
		}
	}
}

// The metrics of an agent that does not come back are not fetched for ever, and not if another agent
// has their names.
func TestMissingAgent(t *testing.T) {
	for _, dynamic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := twoAgents(10)
			f.dynamic[6] = dynamic
			r := newHarness(t, f)
			r.scrape(time.Hour)
			f.down[6], f.changes = true, pdu.StateDropAgent
			began := time.Now()
			for time.Since(began) < maxMissing-time.Minute {
				r.scrape(time.Hour)
				if len(f.fetched) != 20 {
					t.Fatalf("%d metrics are fetched after %v", len(f.fetched), time.Since(began))
				}
				time.Sleep(15 * time.Second)
			}
			time.Sleep(time.Minute + 1)
			r.scrape(time.Hour)
			if len(f.fetched) != 10 || len(r.plan.metrics) != 10 {
				t.Errorf("%d metrics are fetched after %v", len(f.fetched), time.Since(began))
			}
		})
	}
	f := twoAgents(10)
	f.dynamic[6] = true
	r := newHarness(t, f)
	r.scrape(time.Hour)
	f.down[6], f.changes = true, pdu.StateDropAgent|pdu.StateAddAgent
	for i := range 10 {
		f.metrics[10+i].desc.PMID = pdu.NewPMID(7, 0, i)
	}
	if got := r.scrape(time.Hour); got != "a 10, b 10" || len(r.log) > 0 || len(f.fetched) != 20 {
		t.Errorf("with another agent: %s, %d metrics fetched, log %q", got, len(f.fetched), r.log)
	}
}

// Labels of instances are those of an agent that was started again, and those before as long as it
// does not tell them.
func TestRestartLabelsOfInstances(t *testing.T) {
	f := &fake{
		metrics: []fakeMetric{perInst(1, "a", fakeDom, 1)},
		insts:   map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "one"}}},
		ofInsts: map[pdu.InDom][]pmapi.InstLabels{fakeDom: {{Inst: 1, Labels: []pmapi.Label{{Name: "k", Value: "1"}}}}},
	}
	r := newHarness(t, f)
	old := `a{instid="1",instname="one",k="1"} 0` + "\n"
	r.check(r.samples(), old)
	f.ofInsts[fakeDom] = []pmapi.InstLabels{{Inst: 1, Labels: []pmapi.Label{{Name: "k", Value: "2"}}}}
	f.changes, f.noLabel = restarted, pdu.ErrnoAgain
	r.check(r.samples(), old)
	f.noLabel = nil
	r.check(r.samples(), `a{instid="1",instname="one",k="2"} 0`+"\n")
	n := f.calls["LabelsAt"]
	r.check(r.samples(), `a{instid="1",instname="one",k="2"} 0`+"\n")
	if f.calls["LabelsAt"] != n {
		t.Errorf("%d requests for labels without a change", f.calls["LabelsAt"]-n)
	}
}
