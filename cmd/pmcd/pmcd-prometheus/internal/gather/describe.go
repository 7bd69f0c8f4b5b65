package gather

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// describe finds out about the metrics that are not described yet, until the time is over.
func (p *plan) describe(ctx context.Context, c Client, until time.Time) error {
	var rest []*metric
	silent := make(map[int]bool) // domains of agents that do not answer
	for i, m := range p.pending {
		if time.Now().After(until) {
			rest = append(rest, p.pending[i:]...)
			break
		}
		if silent[m.desc.PMID.Domain()] {
			rest = append(rest, m)
			continue
		}
		err := p.describeOne(ctx, c, m)
		if isLost(err) {
			p.pending = append(rest, p.pending[i:]...)
			p.setIDs()
			return err
		}
		if err != nil {
			silent[m.desc.PMID.Domain()] = true
			rest = append(rest, m)
			continue
		}
		p.metrics = append(p.metrics, m)
	}
	p.pending = rest
	p.setIDs()
	return nil
}

// describeAgain is describe for metrics that have been described before. They are served as before
// until their agent has answered.
func (p *plan) describeAgain(ctx context.Context, c Client, until time.Time) error {
	silent := make(map[int]bool)
	for i, m := range p.metrics {
		if !m.again || silent[m.desc.PMID.Domain()] {
			continue
		}
		if time.Now().After(until) {
			break
		}
		now := &metric{desc: m.desc, order: m.order, asked: m.asked, names: slices.Clone(m.asked), found: m.found}
		err := p.describeOne(ctx, c, now)
		switch {
		case isLost(err):
			return err
		case err != nil:
			silent[m.desc.PMID.Domain()] = true
		case now.help == m.help && slices.Equal(now.names, m.names) && slices.Equal(now.lower, m.lower):
			m.again = false // and its series stay
		default:
			p.metrics[i] = now
		}
	}
	return nil
}

// describeOne completes m. It fails if an agent may answer later.
func (p *plan) describeOne(ctx context.Context, c Client, m *metric) error {
	id := m.desc.PMID
	all, err := c.Names(ctx, id)
	if isLost(err) || isTransient(err) {
		return err
	}
	for _, name := range all {
		if !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
	}
	if m.help, err = c.Text(ctx, id, pmapi.TextOneLine); isLost(err) || isTransient(err) {
		return err
	}
	m.help = strings.ToValidUTF8(m.help, "\uFFFD") // otherwise Prometheus refuses all values of a host
	var sets [][]pmapi.Label
	for _, l := range []level{
		{pmapi.LabelDomain, uint32(id.Domain())},
		{pmapi.LabelInDom, uint32(m.desc.InDom)},
		{pmapi.LabelCluster, uint32(pdu.NewPMID(id.Domain(), id.Cluster(), 0))},
		{pmapi.LabelItem, uint32(id)},
	} {
		if l.kind == pmapi.LabelInDom && m.desc.InDom == pdu.NoInDom {
			continue
		}
		labels, err := p.labelsOf(ctx, c, l)
		if err != nil {
			return err
		}
		sets = append(sets, labels)
	}
	m.lower = pmapi.MergeLabels(sets...)
	m.setContext(p.context)
	return nil
}

// setContext makes the labels of the host those of m, too.
func (m *metric) setContext(host []pmapi.Label) {
	m.labels = pmapi.MergeLabels(host, m.lower)
	m.pairs, m.series, m.own = nil, nil, nil
}

// labelsOf returns the labels of a level. Those of items are not kept, as nothing else has
// them.
func (p *plan) labelsOf(ctx context.Context, c Client, l level) ([]pmapi.Label, error) {
	if labels, ok := p.levels[l]; ok {
		return labels, nil
	}
	labels, err := askLabels(ctx, c, l)
	if err == nil && l.kind != pmapi.LabelItem {
		p.levels[l] = labels
	}
	return labels, err
}

// askLabels asks for the labels of a level. It fails if an agent may answer later.
func askLabels(ctx context.Context, c Client, l level) ([]pmapi.Label, error) {
	sets, err := c.LabelsAt(ctx, l.kind, l.ident)
	switch {
	case isLost(err), isTransient(err):
		return nil, fmt.Errorf("labels: %w", err)
	case len(sets) == 0:
		return nil, nil
	}
	return sets[0].Labels, nil
}

// isClients reports whether a label of the host is that of this client: pmcd adds the user to
// the labels for a client at its Unix domain socket. The series of a host must not change with
// the user that asks for them.
func isClients(l pmapi.Label) bool {
	return l.Optional && (l.Name == "userid" || l.Name == "groupid")
}
