package openmetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Labels implements [agents.Labeler].
func (a *agent) Labels(ctx context.Context, _ agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	var labels []label
	var optional []label
	switch kind {
	case pdu.LabelDomain:
		labels = []label{{"agent", a.root}}
	case pdu.LabelCluster:
		labels = a.sourceLabels(a.byCluster[pdu.PMID(ident).Cluster()])
	case pdu.LabelInDom:
		if s := a.indomSource(pdu.InDom(ident)); s != nil {
			labels = []label{{"source", s.name}}
		}
	case pdu.LabelItem:
		s, m, err := a.metric(pdu.PMID(ident))
		if err != nil {
			return nil, nil
		}
		defer s.mu.Unlock()
		if labels, err = s.itemLabels(ctx, m); err != nil {
			return nil, err
		}
		optional = m.optional
	case pdu.LabelInstances:
		return a.instanceLabels(ctx, pdu.InDom(ident))
	}
	if len(labels)+len(optional) == 0 {
		return nil, nil
	}
	return []pdu.LabelSet{labelSet(pdu.NoInst, kind, labels, optional)}, nil
}

// labelSet returns a set of labels. Those that PCP does not allow are left out.
func labelSet(inst int32, kind pdu.LabelKind, labels, optional []label) pdu.LabelSet {
	var list []pdu.NamedLabel
	add := func(labels []label, flags pdu.LabelKind) {
		for _, l := range labels {
			n := pdu.NamedLabel{Name: l.name, Value: quote(l.value), Flags: flags}
			if _, err := pdu.NewLabelSet(inst, kind, n); err == nil {
				list = append(list, n)
			}
		}
	}
	add(labels, 0)
	add(optional, pdu.LabelOptional)
	s, err := pdu.NewLabelSet(inst, kind, list...)
	if err != nil { // they are too long for one set
		return pdu.LabelSet{Inst: inst}
	}
	return s
}

// quote returns a string as JSON. It does not escape more than it has to, as clients show that.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string and a Builder have no errors
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *agent) sourceLabels(s *source) []label {
	if s == nil {
		return nil
	}
	if s.script {
		return []label{{"script", s.path}, {"source", s.name}}
	}
	s.mu.Lock()
	f := s.file
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	host, text := f.url.Host, f.text
	if f.url.User != nil { // clients need not know a password
		text = f.url.Redacted()
	}
	// C differs: it compares the host with its port.
	if f.url.Scheme == "file" || f.url.Hostname() == "localhost" {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return []label{{"hostname", host}, {"source", s.name}, {"url", text}}
}

// indomSource returns the source of an instance domain, or nil.
func (a *agent) indomSource(id pdu.InDom) *source {
	if id.Serial() <= maxSources {
		return nil
	}
	t, unlock := a.table(id)
	if t == nil {
		return nil
	}
	unlock()
	return a.byCluster[(id.Serial()-maxSources-1)/maxItems]
}

// itemLabels returns the labels of a metric: those of its first sample, and of each label of its
// instances the value that came last. It stops at one more than a set can have. The source is locked.
func (s *source) itemLabels(ctx context.Context, m *metric) ([]label, error) {
	labels := make([]label, 0, len(m.first))
	at := make(map[string]int) // in labels
	for _, l := range m.first {
		if !slices.ContainsFunc(m.optional, func(o label) bool { return o.name == l.name }) {
			at[l.name] = len(labels)
			labels = append(labels, l)
		}
	}
	last := make([]uint64, len(labels)) // the numbers of the samples that they are of
	for i, c := range m.cells {
		if i%64 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if c.seq == 0 || m.insts == nil {
			continue
		}
		naming := s.naming(m.raw[i])
		if _, prefix := m.instName(naming); !prefix {
			continue
		}
		for _, l := range naming {
			n, ok := at[l.name]
			switch {
			case !ok && len(labels) > maxSetLabels:
				return labels, nil
			case !ok:
				at[l.name] = len(labels)
				labels, last = append(labels, l), append(last, c.seq)
			case c.seq > last[n]:
				labels[n], last[n] = l, c.seq
			}
		}
	}
	return labels, nil
}

// naming returns the labels of a series that name the instance.
func (s *source) naming(key string) []label {
	_, labels, err := parseSeries(key)
	if err != nil {
		return nil
	}
	p := page{file: s.file}
	_, _, naming := p.filterLabels(labels)
	return naming
}

// instanceLabels returns a label set for each instance.
func (a *agent) instanceLabels(ctx context.Context, id pdu.InDom) ([]pdu.LabelSet, error) {
	n := id.Serial() - maxSources - 1
	if n < 0 || id.Domain() != a.domain {
		return nil, nil
	}
	s, m, err := a.metric(pdu.NewPMID(a.domain, n/maxItems, n%maxItems))
	if err != nil {
		return nil, nil
	}
	defer s.mu.Unlock()
	if m.insts == nil {
		return nil, nil
	}
	sets := make([]pdu.LabelSet, m.insts.known)
	for i := range sets {
		if i%64 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		var labels []label
		if i < len(m.cells) && m.cells[i].seq > 0 {
			labels = slices.DeleteFunc(s.naming(m.raw[i]), func(l label) bool { return l.name == "instname" })
		}
		name := fmt.Sprintf("%d %s", i, m.insts.names[i])
		sets[i] = labelSet(int32(i), pdu.LabelInstances, labels, []label{{"instname", strings.ToValidUTF8(name, "")}})
	}
	return sets, nil
}
