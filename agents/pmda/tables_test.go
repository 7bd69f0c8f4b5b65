package pmda_test

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// New reports all errors in the tables.
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
		want []string // parts of the error; nil if there is none
	}{
		{"good", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good}}, nil},
		{"no domain", pmda.Config{Metrics: []pmda.Metric{good}}, []string{"domain 0"}},
		{"domain of dynamic names", pmda.Config{Domain: 511, Metrics: []pmda.Metric{good}}, []string{"domain 511"}},
		{"no metrics", pmda.Config{Domain: domain}, []string{"no metrics"}},
		{"cluster", with(func(m *pmda.Metric) { m.Cluster = 4096 }), []string{"metric 4096.0: cluster 4096"}},
		{"item", with(func(m *pmda.Metric) { m.Item = -1 }), []string{"item -1"}},
		{"type", with(func(m *pmda.Metric) { m.Type = pdu.MetricUnknown }), []string{"type 255"}},
		{"semantics", with(func(m *pmda.Metric) { m.Sem = 0; m.Name = "a.b" }), []string{"metric a.b: semantics 0"}},
		{"label", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a-b": 2} }), []string{`label name "a-b"`}},
		{"label value", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a": func() {}} }), []string{"label a"}},
		{"nested label", with(func(m *pmda.Metric) { m.Labels = pmda.Labels{"a": map[string]int{}} }), []string{"label a: a label cannot have a value of type map"}},
		{"serial", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Serial: 1 << 22} }), []string{"4194304 is not"}},
		{"instance domain without Insts", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Serial: 7} }), []string{"instance domain 7 has no"}},
		{"negative instance", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Insts: pmda.List{{ID: -1, Name: "a"}}} }), []string{`instance -1 "a"`}},
		{"duplicate instance", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "a"}, {ID: 1, Name: "b"}}}
		}), []string{`instance 1 "b"`}},
		{"duplicate name", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1, Name: "a b"}, {ID: 2, Name: "a c"}}}
		}), []string{`instance 2 "a c"`}},
		{"instance without name", with(func(m *pmda.Metric) { m.InDom = &pmda.InDom{Insts: pmda.List{{ID: 1}}} }), []string{`instance 1 ""`}},
		{"cache of another domain", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Serial: 1, Insts: cache.New(pdu.NewInDom(domain, 2), cache.Options{})}
		}), []string{"the cache in Insts is of instance domain 400.2, not 400.1"}},
		{"cache", with(func(m *pmda.Metric) {
			m.InDom = &pmda.InDom{Serial: 1, Insts: cache.New(pdu.NewInDom(domain, 1), cache.Options{})}
		}), nil},
		{"duplicate serial", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			InDoms: []*pmda.InDom{dom, dom, {Serial: 1, Insts: pmda.List{}}}}, []string{"instance domain 1 is defined twice"}},
		{"duplicate item", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good, good}}, []string{"metric 0.0: its cluster and item are defined twice"}},
		{"duplicate cluster", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			Clusters: []pmda.Cluster{{Cluster: 3}, {Cluster: 3}}}, []string{"cluster 3 is defined twice"}},
		{"cluster number", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good},
			Clusters: []pmda.Cluster{{Cluster: 4096}}}, []string{"cluster 4096 is not in"}},
		{"help", pmda.Config{Domain: domain, Metrics: []pmda.Metric{good}, Help: "@ \n@ a x\n@ a y\n"},
			[]string{"line 1: no name", "line 3: second entry for a"}},
		{"subtree", pmda.Config{Domain: domain, Subtrees: []*pmda.Subtree{{}}}, []string{"no prefix"}},
		{"several errors", pmda.Config{Domain: domain, Metrics: []pmda.Metric{{Item: 1}, {Item: 2}}, Labels: pmda.Labels{"": 1}},
			[]string{"metric 0.1: semantics 0", "metric 0.2: semantics 0", "domain: label name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pmda.New(tt.c)
			if (err != nil) != (tt.want != nil) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}
