package pmda_test

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// Mistakes in tables are found before the agent is asked anything, all of them.
func TestNew(t *testing.T) {
	dom := &pmda.InDom{Serial: 1, Insts: pmda.List{}}
	good := row(0, sets(1))
	with := func(change func(*pmda.Metric)) pmda.Config {
		m := good
		change(&m)
		return pmda.Config{Domain: domain, Metrics: []pmda.Metric{m}}
	}
	tests := []struct {
		name string
		c    pmda.Config
		want []string // what the error says; nothing if there is none
	}{
		{"good", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good}}, nil},
		{"no domain", pmda.Config{Metrics: []pmda.Metric{good}}, []string{"domain 0"}},
		{"domain of dynamic names", pmda.Config{Domain: 511, Metrics: []pmda.Metric{good}}, []string{"domain 511"}},
		{"no metrics", pmda.Config{Domain: domain}, []string{"no metrics"}},
		{"cluster", with(func(m *pmda.Metric) { m.Cluster = 4096 }), []string{"metric 4096.0: cluster 4096"}},
		{"item", with(func(m *pmda.Metric) { m.Item = -1 }), []string{"item -1"}},
		{"type", with(func(m *pmda.Metric) { m.Type = pdu.MetricUnknown }), []string{"is no type"}},
		{"semantics", with(func(m *pmda.Metric) { m.Sem = 0; m.Name = "a.b" }), []string{"metric a.b: 0 are no semantics"}},
		{"label", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a-b": 2} }), []string{`label name "a-b"`}},
		{"label value", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a": func() {}} }), []string{"label a"}},
		{"nested label", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a": map[string]int{}} }), []string{"no value of a label"}},
		{"serial", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Serial: 1 << 22} }), []string{"4194304 is not"}},
		{"instance domain without Insts", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Serial: 7} }), []string{"instance domain 7 has no"}},
		{"negative instance", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Insts: pmda.List{{ID: -1, Name: "a"}}} }), []string{`instance -1 "a"`}},
		{"instance twice", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "a"}, {ID: 1, Name: "b"}}}
		}), []string{`instance 1 "b"`}},
		{"name twice", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "a b"}, {ID: 2, Name: "a c"}}}
		}), []string{`instance 2 "a c"`}},
		{"instance without name", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1}}} }), []string{`instance 1 ""`}},
		{"cache of another domain", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Serial: 1, Insts: cache.New(pdu.NewInDom(domain, 2), cache.Options{})}
		}), []string{"its Insts are those of 400.2, not of 400.1"}},
		{"cache", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Serial: 1, Insts: cache.New(pdu.NewInDom(domain, 1), cache.Options{})}
		}), nil},
		{"two of a serial", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			InDoms: []*pmda.InDom{dom, dom, {Serial: 1, Insts: pmda.List{}}}}, []string{"instance domain 1 is there twice"}},
		{"two of an item", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good, good}}, []string{"metric 0.0: is there twice"}},
		{"two of a cluster", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			Clusters: []pmda.Cluster{{Cluster: 3}, {Cluster: 3}}}, []string{"cluster 3 is there twice"}},
		{"number of a cluster", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			Clusters: []pmda.Cluster{{Cluster: 4096}}}, []string{"cluster 4096 is not in"}},
		{"help", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good}, Help: "@ \n@ a x\n@ a y\n"},
			[]string{"line 1: no name", "line 3: a is there twice"}},
		{"subtree", pmda.Config{Domain: domain, Subtrees: []*pmda.Subtree{{}}}, []string{"no prefix"}},
		{"all at once", pmda.Config{Domain: domain, Metrics: []pmda.Metric{{Item: 1}, {Item: 2}}, Labels: pmda.Labels{"": 1}},
			[]string{"metric 0.1: 0 are", "metric 0.2: 0 are", "domain: label name"}},
	}
	for _, tt := range tests {
		_, err := pmda.New(tt.c)
		if (err != nil) != (tt.want != nil) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q, want %q in it", tt.name, err, want)
			}
		}
	}
}
