package pmda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// An agent is an [agents.Agent] made of tables. [New] makes one.
type agent struct {
	conf    Config
	log     *slog.Logger
	metrics map[pdu.PMID]*metric // all, those of Subtrees included
	fixed   map[pdu.PMID]*metric // those of Config.Metrics
	indoms  map[pdu.InDom]*InDom
	names   *tree // of Subtrees
	cluster map[int]*Cluster
	help    map[string]HelpText
	clients map[int32]*Client // nil if they are not kept

	requestNumber uint64 // the number of the present request, for Sources
	changed       int32  // state change flags for the next fetch
	req           Request
	fetch         fetch
	logged        map[string]loggedError // by what has failed
}

// A metric is a row of the table of metrics with what New has found out.
type metric struct {
	*Metric
	desc   pdu.Desc
	fetch  FetchFunc
	source *Source
}

// New returns an agent. It fails if the tables contradict themselves; the
// error names all mistakes.
//
// The agent is an agents.ContextEnder and an agents.AttrSetter only if the
// Config asks for Clients and Attrs, since pmcd has work with both.
func New(c Config) (agents.Agent, error) {
	a := &agent{
		conf:    c,
		log:     c.Log,
		fixed:   make(map[pdu.PMID]*metric),
		indoms:  make(map[pdu.InDom]*InDom),
		cluster: make(map[int]*Cluster),
		logged:  make(map[string]loggedError),
		names:   new(tree),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.req.a = a
	a.fetch.init(a)
	if err := a.addTables(); err != nil {
		return nil, err
	}
	switch {
	case c.WantAttrs:
		a.clients = make(map[int32]*Client)
		return withAttrs{withClients{a}}, nil
	case c.TrackClients, c.EndClient != nil:
		a.clients = make(map[int32]*Client)
		return withClients{a}, nil
	}
	return a, nil
}

var (
	_ agents.Instancer    = (*agent)(nil)
	_ agents.Texter       = (*agent)(nil)
	_ agents.Storer       = (*agent)(nil)
	_ agents.Namer        = (*agent)(nil)
	_ agents.Labeler      = (*agent)(nil)
	_ agents.ContextEnder = withClients{}
	_ agents.AttrSetter   = withAttrs{}
)

// addTables takes the addTables of the Config over, and returns what is wrong with
// them.
func (a *agent) addTables() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d := a.conf.Domain; d < 1 || d > 510 {
		return fmt.Errorf("domain %d is not in 1 to 510", d)
	}
	for i := range a.conf.Clusters {
		c := &a.conf.Clusters[i]
		if a.cluster[c.Cluster] != nil {
			add("cluster %d is there twice", c.Cluster)
		}
		if c.Cluster < 0 || c.Cluster > 4095 {
			add("cluster %d is not in 0 to 4095", c.Cluster)
		}
		a.cluster[c.Cluster] = c
		if _, err := c.Labels.encode(pdu.NoInst, pdu.LabelCluster); err != nil {
			add("cluster %d: %w", c.Cluster, err)
		}
	}
	for _, d := range a.conf.InDoms {
		if err := a.addInDom(d); err != nil {
			add("%w", err)
		}
	}
	for i := range a.conf.Metrics {
		m, err := a.newMetric(&a.conf.Metrics[i])
		if err == nil && a.fixed[m.desc.PMID] != nil {
			err = errors.New("is there twice")
		}
		if err != nil {
			add("metric %s: %w", a.conf.Metrics[i].logName(), err)
			continue
		}
		a.fixed[m.desc.PMID] = m
	}
	a.metrics = a.fixed
	if _, err := a.conf.Labels.encode(pdu.NoInst, pdu.LabelDomain); err != nil {
		add("domain: %w", err)
	}
	for _, t := range a.conf.Subtrees {
		if err := t.join(a); err != nil {
			add("%w", err)
		}
	}
	help, err := ParseHelp(a.conf.Help)
	if err != nil {
		add("help: %w", err)
	}
	a.help = help
	if len(a.conf.Metrics)+len(a.conf.Subtrees) == 0 {
		add("there are no metrics")
	}
	return errors.Join(errs...)
}

// logName is what messages call a metric.
func (m *Metric) logName() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("%d.%d", m.Cluster, m.Item)
}

// newMetric checks a row of the table of metrics.
func (a *agent) newMetric(row *Metric) (*metric, error) {
	if row.Cluster < 0 || row.Cluster > 4095 || row.Item < 0 || row.Item > 1023 {
		return nil, fmt.Errorf("cluster %d is not in 0 to 4095, or item %d not in 0 to 1023", row.Cluster, row.Item)
	}
	if row.Type < pdu.Metric32 || row.Type > pdu.MetricHighResEvent {
		return nil, fmt.Errorf("%d is no type of a value", row.Type)
	}
	if !slices.Contains([]pdu.Sem{pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete}, row.Sem) {
		return nil, fmt.Errorf("%d are no semantics", row.Sem)
	}
	m := &metric{Metric: row, fetch: row.Fetch, source: row.Source}
	if c := a.cluster[row.Cluster]; c != nil {
		if m.fetch == nil {
			m.fetch = c.Fetch
		}
		if m.source == nil {
			m.source = c.Source
		}
	}
	m.desc = pdu.Desc{
		PMID:      pdu.NewPMID(a.conf.Domain, row.Cluster, row.Item),
		ValueType: row.Type,
		InDom:     pdu.NoInDom,
		Sem:       row.Sem,
		Units:     row.Units,
	}
	if row.InDom != nil {
		if err := a.addInDom(row.InDom); err != nil {
			return nil, err
		}
		m.desc.InDom = a.indom(row.InDom)
	}
	if _, err := row.Labels.encode(pdu.NoInst, pdu.LabelItem); err != nil {
		return nil, err
	}
	return m, nil
}

func (a *agent) indom(d *InDom) pdu.InDom { return pdu.NewInDom(a.conf.Domain, d.Serial) }

// addInDom makes d known.
func (a *agent) addInDom(d *InDom) error {
	if d.Serial < 0 || d.Serial > 1<<22-1 {
		return fmt.Errorf("instance domain: %d is not in 0 to 4194303", d.Serial)
	}
	id := a.indom(d)
	switch old := a.indoms[id]; {
	case old == d:
		return nil
	case old != nil:
		return fmt.Errorf("instance domain %d is there twice", d.Serial)
	case d.Insts == nil:
		return fmt.Errorf("instance domain %d has no Insts", d.Serial)
	}
	if _, err := d.Labels.encode(pdu.NoInst, pdu.LabelInDom); err != nil {
		return fmt.Errorf("instance domain %d: %w", d.Serial, err)
	}
	if err := checkInsts(d.Insts, id); err != nil {
		return fmt.Errorf("instance domain %d: %w", d.Serial, err)
	}
	a.indoms[id] = d
	return nil
}

// checkInsts says what is wrong with instances that can be looked at before
// they are needed.
func checkInsts(insts Instances, id pdu.InDom) error {
	switch insts := insts.(type) {
	case interface{ InDom() pdu.InDom }: // a cache.Cache; its file goes by that
		if other := insts.InDom(); other != id {
			return fmt.Errorf("its Insts are those of %v, not of %v", other, id)
		}
	case List:
		ids, names := make(map[int32]bool), make(map[string]bool)
		for _, i := range insts {
			name, _, _ := strings.Cut(i.Name, " ")
			if i.ID < 0 || ids[i.ID] || name == "" || names[name] {
				return fmt.Errorf("instance %d %q: the id is negative, the name is empty, or one of them is there twice", i.ID, i.Name)
			}
			ids[i.ID], names[name] = true, true
		}
	}
	return nil
}

// begin starts a request. If it returns no error, end must be called.
func (a *agent) begin(ctx context.Context, o agents.Origin, p *pdu.Profile) (*Request, error) {
	a.requestNumber++
	a.req.Origin, a.req.Profile = o, p
	if a.clients != nil {
		a.client(o.Client) // to have been heard of
	}
	if a.conf.Check != nil {
		if err := a.conf.Check(ctx, &a.req); err != nil {
			return nil, a.errno("check", "", err)
		}
	}
	return &a.req, nil
}

func (a *agent) end(r *Request) {
	if a.conf.Done != nil {
		a.conf.Done(r)
	}
	r.Profile = nil
}

// read reads a Source, unless that was done in this request.
func (a *agent) read(ctx context.Context, s *Source) error {
	if s == nil || s.Read == nil {
		return nil
	}
	if s.a != a || s.requestNumber != a.requestNumber {
		s.a, s.requestNumber = a, a.requestNumber
		s.err = s.Read(ctx, &a.req)
	}
	return s.err
}

// Desc implements [agents.Agent].
func (a *agent) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return pdu.Desc{}, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	m := a.metrics[id]
	if m == nil {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return m.desc, nil
}

// Close implements io.Closer.
func (a *agent) Close() error {
	if a.conf.Close == nil {
		return nil
	}
	return a.conf.Close()
}
