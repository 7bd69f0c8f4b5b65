package gather

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// changes is what pmcd has reported since the plan was made.
type changes struct {
	bits        int32 // such as pdu.StateNamesChange
	reconnected bool
	silent      map[int]bool // domains of agents that have not answered the last fetch
}

func (c *changes) any() bool { return c.bits != 0 || c.reconnected }

// newAgents are the changes after which an agent may have other texts and labels.
const newAgents = pdu.StateAddAgent | pdu.StateRestartAgent

// add adds what a fetch has reported, and reports whether that is a change.
func (c *changes) add(r *pmapi.Result) bool {
	changed := r.Changes != 0 || r.Reconnected
	c.bits |= r.Changes
	c.reconnected = c.reconnected || r.Reconnected
	if !changed || c.silent == nil {
		c.silent = make(map[int]bool)
	}
	answers := make(map[int]bool) // of domains
	for i := range r.Sets {
		d := r.Sets[i].PMID.Domain()
		answers[d] = answers[d] || !isSilent(r.Sets[i].Err)
	}
	for d, answer := range answers {
		if !answer {
			c.silent[d] = true
		}
	}
	return changed
}

// isSilent reports whether an error of values says that pmcd has no agent for them.
func isSilent(code pdu.Errno) bool {
	return code == pdu.ErrnoNoAgent || code == pdu.ErrnoIPC || code == pdu.ErrnoTimeout || code == pdu.ErrnoNotReady
}

// replan looks up the names and the descriptors of all metrics, and makes a plan of them and of the
// one before.
func (g *Gatherer) replan(ctx context.Context, c Client) (*plan, error) {
	r := &replanner{
		plan: &plan{made: time.Now(), levels: make(map[level][]pmapi.Label), indoms: make(map[pdu.InDom]*indom)},
		old:  make(map[pdu.PMID]*metric), byID: make(map[pdu.PMID][]string), byName: make(map[string]pdu.PMID),
	}
	before := g.plan
	if before == nil {
		before = new(plan)
	}
	for _, m := range before.metrics {
		r.old[m.desc.PMID] = m
	}
	names, unanswered, err := g.names(ctx, c, r.plan)
	if err != nil {
		return nil, err
	}
	r.unanswered = unanswered
	ids, err := r.lookUp(ctx, c, names)
	if err != nil {
		return nil, err
	}
	named := len(ids)
	for _, m := range before.metrics {
		if r.byID[m.desc.PMID] == nil {
			ids = append(ids, m.desc.PMID) // does its agent answer?
		}
	}
	if len(ids) == 0 {
		return r.plan, nil
	}
	descs, err := c.Descs(ctx, ids...)
	if descs == nil {
		return nil, err
	}
	for i, id := range ids {
		if len(r.plan.metrics)+len(r.plan.pending) >= maxMetrics {
			g.logOnce(slog.LevelWarn, "maximum", "there are {count} metrics; the first {limit} are used", "count", named, "limit", maxMetrics)
			break
		}
		r.add(g, i, id, descs[i], errorOf(err, i))
	}
	if err := r.host(ctx, c, before); err != nil {
		return nil, err
	}
	r.markAgain(&g.changes)
	for _, m := range slices.Concat(r.plan.metrics, r.plan.pending) {
		if d := before.indoms[m.desc.InDom]; d != nil {
			d.again = d.again || m.again
			r.plan.indoms[m.desc.InDom] = d
		}
	}
	r.plan.setIDs()
	return r.plan, nil
}

// A replanner makes a plan.
type replanner struct {
	plan       *plan
	old        map[pdu.PMID]*metric // of the plan before
	byID       map[pdu.PMID][]string
	byName     map[string]pdu.PMID
	unanswered []string // arguments whose names agents have not told
}

// lookUp looks up names. It returns PMIDs, each once.
func (r *replanner) lookUp(ctx context.Context, c Client, names []string) (unique []pdu.PMID, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	ids, err := c.Lookup(ctx, names...)
	if ids == nil {
		return nil, err
	}
	for i, id := range ids {
		if id == pdu.NoPMID {
			continue
		}
		if r.byID[id] == nil {
			unique = append(unique, id)
		}
		r.byID[id] = append(r.byID[id], names[i])
		r.byName[names[i]] = id
	}
	return unique, nil
}

// errorOf returns the error of an item of a request for several.
func errorOf(err error, i int) error {
	if many, ok := errors.AsType[*pmapi.ItemsError](err); ok {
		return many.Errs[i]
	}
	return err
}

// add adds a metric to the plan, unless pmcd has no descriptor of it or its values are not wanted.
func (r *replanner) add(g *Gatherer, order int, id pdu.PMID, d pdu.Desc, err error) {
	p, names, o := r.plan, r.byID[id], r.old[id]
	switch {
	case d.PMID == pdu.NoPMID && isTransient(err):
		p.retry = true
		r.keep(o)
	case d.PMID == pdu.NoPMID:
	case names == nil: // the agent answers
		if slices.ContainsFunc(o.asked, r.isUnanswered) {
			r.keep(o)
		}
	case !isNumber(d.ValueType) && !(d.ValueType == pdu.MetricString && g.isNamed(names)):
	case o != nil && o.desc == d && includes(o.names, names):
		hasOthers := len(o.names) > len(names) // which no argument selects
		o.again = o.again || !slices.Equal(o.asked, names) || hasOthers && g.changes.bits&pdu.StateNamesChange != 0
		o.order, o.asked, o.found = order, names, p.made
		p.metrics = append(p.metrics, o)
	default:
		p.pending = append(p.pending, &metric{desc: d, order: order, asked: names, names: slices.Clone(names), found: p.made})
	}
}

// isUnanswered reports whether a name is below an argument that agents have not answered.
func (r *replanner) isUnanswered(name string) bool {
	return slices.ContainsFunc(r.unanswered, func(top string) bool {
		return top == "" || name == top || strings.HasPrefix(name, top+".")
	})
}

// keep keeps a metric of the plan before, whose agent does not answer, for some time. Others may have
// got its names.
func (r *replanner) keep(m *metric) {
	if m == nil || r.plan.made.Sub(m.found) >= maxMissing || slices.ContainsFunc(m.names, func(name string) bool {
		id, ok := r.byName[name]
		return ok && id != m.desc.PMID
	}) {
		return
	}
	r.plan.retry = true
	r.plan.metrics = append(r.plan.metrics, m)
}

// host asks for the labels of the host, which all metrics have.
func (r *replanner) host(ctx context.Context, c Client, before *plan) error {
	p := r.plan
	labels, err := askLabels(ctx, c, level{pmapi.LabelContext, 0})
	switch {
	case isLost(err), err != nil && before.made.IsZero():
		return err
	case err != nil:
		p.context, p.retry = before.context, true
	default:
		p.context = slices.DeleteFunc(labels, isClients)
	}
	if !slices.Equal(p.context, before.context) {
		for _, m := range p.metrics {
			m.setContext(p.context)
		}
	}
	return nil
}

// markAgain marks the metrics that are to be described again. pmcd does not tell which agent was
// started: if there are agents that have not answered a fetch and do so now, it is those. Without
// any it can be each, as an agent can be started again between two fetches.
func (r *replanner) markAgain(c *changes) {
	all := c.reconnected || c.bits&pdu.StateLabelChange != 0
	back := make(map[int]bool)
	for _, m := range slices.Concat(r.plan.metrics, r.plan.pending) {
		if d := m.desc.PMID.Domain(); c.silent[d] && m.found.Equal(r.plan.made) {
			back[d] = true
		}
	}
	if !all && c.bits&newAgents == 0 {
		return
	}
	for d := range back {
		delete(c.silent, d)
	}
	for _, m := range r.plan.metrics {
		m.again = m.again || all || len(back) == 0 || back[m.desc.PMID.Domain()]
	}
}
