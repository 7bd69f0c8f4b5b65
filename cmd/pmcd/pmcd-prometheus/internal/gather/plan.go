package gather

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

const (
	// maxPlanAge is when names are looked up again although pmcd has reported no change. Not
	// all agents report that they have new metrics.
	maxPlanAge = time.Minute

	// retryAge is the same if an agent has not answered.
	retryAge = 5 * time.Second

	// maxMetrics is how many metrics are fetched: no more fit into a request.
	maxMetrics = 16000
)

// A plan is what to fetch, and what is known about it. It is made anew when pmcd reports a
// change; otherwise, its metrics are kept in the next plan.
type plan struct {
	made    time.Time
	retry   bool      // an agent has not answered
	pending []*metric // not described yet
	metrics []*metric // described, in the order of the name space
	ids     []pdu.PMID
	levels  map[level][]pmapi.Label // labels of what several metrics have in common
	indoms  map[pdu.InDom]*indom
}

// A metric has numbers for values, or strings.
type metric struct {
	desc   pdu.Desc
	order  int              // in the name space
	names  []string         // that it was asked for by and, once it is described, all others
	help   string           // one line
	labels []pmapi.Label    // of all levels but that of instances
	pairs  []*dto.LabelPair // of labels, which series share
	series map[int32]*series
	own    map[uint64]bool // hashes of the labels of series
	indom  int             // the version of the indom that series are of
}

// A level is what labels belong to.
type level struct {
	kind  pdu.LabelKind
	ident uint32
}

// isOld reports whether to look up names again.
func (p *plan) isOld() bool {
	age := time.Since(p.made)
	return age > maxPlanAge || p.retry && age > retryAge
}

// makePlan looks up the names and the descriptors of all metrics.
func (g *Gatherer) makePlan(ctx context.Context, c Client) (*plan, error) {
	p := &plan{made: time.Now(), levels: make(map[level][]pmapi.Label), indoms: make(map[pdu.InDom]*indom)}
	old := make(map[pdu.PMID]*metric)
	if g.plan != nil {
		p.indoms = g.plan.indoms
		for _, m := range g.plan.metrics {
			old[m.desc.PMID] = m
		}
	}
	names, err := g.names(ctx, c, p)
	if err != nil || len(names) == 0 {
		return p, err
	}
	ids, err := c.Lookup(ctx, names...)
	if ids == nil {
		return nil, err
	}
	byID := make(map[pdu.PMID][]string)
	var unique []pdu.PMID
	for i, id := range ids {
		if id == pdu.NoPMID {
			continue
		}
		if byID[id] == nil {
			unique = append(unique, id)
		}
		byID[id] = append(byID[id], names[i])
	}
	if len(unique) == 0 {
		return p, nil
	}
	descs, err := c.Descs(ctx, unique...)
	if descs == nil {
		return nil, err
	}
	p.retry = p.retry || isTransient(err)
	for i, d := range descs {
		if d.PMID == pdu.NoPMID || !isNumber(d.ValueType) && !(d.ValueType == pdu.MetricString && g.isNamed(byID[d.PMID])) {
			continue
		}
		if i >= maxMetrics {
			g.logOnce(slog.LevelWarn, "maximum", "there are {count} metrics; the first {limit} are used", "count", len(descs), "limit", maxMetrics)
			break
		}
		m := &metric{desc: d, order: i, names: byID[d.PMID]}
		if o := old[d.PMID]; o != nil && o.desc == d && includes(o.names, m.names) {
			o.order = i
			p.metrics = append(p.metrics, o)
		} else {
			p.pending = append(p.pending, m)
		}
	}
	p.setIDs()
	return p, nil
}

func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// isNamed reports whether one of a metric's names is asked for itself, and not only a node above
// it. The values of strings are labels: an argument such as proc.psinfo must not give each command
// line to Prometheus.
func (g *Gatherer) isNamed(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(g.conf.Metrics, name) })
}

// isNumber reports whether values of a type can be those of Prometheus.
func isNumber(t pdu.MetricType) bool {
	switch t {
	case pdu.Metric32, pdu.MetricU32, pdu.Metric64, pdu.MetricU64, pdu.MetricFloat, pdu.MetricDouble:
		return true
	}
	return false
}

// names returns the names of all metrics for p, each once.
func (g *Gatherer) names(ctx context.Context, c Client, p *plan) (names []string, err error) {
	known := make(map[string]bool)
	for _, top := range g.conf.Metrics {
		for name, err := range c.Traverse(ctx, top) {
			if isLost(err) {
				return nil, err
			}
			if err != nil {
				p.retry = p.retry || isTransient(err)
				if !g.conf.Optional || !errors.Is(err, pdu.ErrnoName) {
					g.logOnce(slog.LevelWarn, "name "+top, "no metrics {metrics:q}: {error}", "metrics", top, "error", err)
				}
				break
			}
			if !known[name] {
				known[name] = true
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// describe finds out about the metrics that are not described yet, until the time is over.
func (p *plan) describe(ctx context.Context, c Client, until time.Time) error {
	if len(p.pending) == 0 {
		return nil
	}
	var rest []*metric
	var lost error
	for i, m := range p.pending {
		if lost != nil || time.Now().After(until) {
			rest = append(rest, p.pending[i:]...)
			break
		}
		err := p.describeOne(ctx, c, m)
		if err == nil {
			p.metrics = append(p.metrics, m)
			continue
		}
		rest = append(rest, m)
		if isLost(err) {
			lost = err
		}
	}
	p.pending = rest
	p.setIDs()
	return lost
}

// setIDs puts the metrics in order.
func (p *plan) setIDs() {
	slices.SortFunc(p.metrics, func(a, b *metric) int { return a.order - b.order })
	p.ids = p.ids[:0]
	for _, m := range p.metrics {
		p.ids = append(p.ids, m.desc.PMID)
	}
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
	if m.help, err = c.Text(ctx, id, pdu.TextOneLine); isLost(err) || isTransient(err) {
		return err
	}
	m.help = strings.ToValidUTF8(m.help, "\uFFFD") // otherwise Prometheus refuses all values of a host
	var sets [][]pmapi.Label
	for _, l := range []level{
		{pdu.LabelContext, 0},
		{pdu.LabelDomain, uint32(id.Domain())},
		{pdu.LabelInDom, uint32(m.desc.InDom)},
		{pdu.LabelCluster, uint32(pdu.NewPMID(id.Domain(), id.Cluster(), 0))},
		{pdu.LabelItem, uint32(id)},
	} {
		if l.kind == pdu.LabelInDom && m.desc.InDom == pdu.NoInDom {
			continue
		}
		labels, err := p.labelsOf(ctx, c, l)
		if err != nil {
			return err
		}
		sets = append(sets, labels)
	}
	m.labels = pmapi.MergeLabels(sets...)
	return nil
}

// labelsOf returns the labels of a level. Those of items are not kept, as nothing else has
// them.
func (p *plan) labelsOf(ctx context.Context, c Client, l level) ([]pmapi.Label, error) {
	if labels, ok := p.levels[l]; ok {
		return labels, nil
	}
	sets, err := c.LabelsAt(ctx, l.kind, l.ident)
	if isLost(err) || isTransient(err) {
		return nil, fmt.Errorf("labels: %w", err)
	}
	var labels []pmapi.Label
	if len(sets) > 0 {
		labels = sets[0].Labels
	}
	if l.kind == pdu.LabelContext {
		labels = slices.DeleteFunc(labels, isClients)
	}
	if l.kind != pdu.LabelItem {
		p.levels[l] = labels
	}
	return labels, nil
}

// isClients reports whether a label of the host is that of this client: pmcd adds the user to
// the labels for a client at its Unix domain socket. The series of a host must not change with
// the user that asks for them.
func isClients(l pmapi.Label) bool {
	return l.Kind&pdu.LabelOptional != 0 && (l.Name == "userid" || l.Name == "groupid")
}

// isLost reports whether err means that there is no connection any more.
func isLost(err error) bool {
	var lost *pmapi.ConnError
	return errors.As(err, &lost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isTransient reports whether an agent may answer a request later that it has not answered
// now.
func isTransient(err error) bool {
	for _, e := range []pdu.Errno{pdu.ErrnoAgain, pdu.ErrnoTimeout, pdu.ErrnoNotReady, pdu.ErrnoNoAgent, pdu.ErrnoIPC, pdu.ErrnoPMDAFenced} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
