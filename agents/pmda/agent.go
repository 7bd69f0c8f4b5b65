package pmda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/nametree"
	"github.com/gopcp/pmcd/pdu"
)

// An agent implements [agents.Agent] and the optional interfaces with the tables
// of a Config.
type agent struct {
	conf    Config
	log     *slog.Logger
	metrics map[pdu.PMID]*metric // all metrics, including those of Subtrees
	fixed   map[pdu.PMID]*metric // those of Config.Metrics
	indoms  map[pdu.InDom]*InDom
	names   *nametree.Tree // names in Subtrees
	namesOf map[pdu.PMID][]string
	cluster map[int]*Cluster
	insts   map[pdu.InDom]*requested // of indoms
	help    map[string]HelpText      // from ParseHelp
	clients map[int32]*Client        // nil if the Config does not ask for clients

	requestNumber uint64 // counts requests; see agent.read
	sourcesRead   uint64 // counts reads of Sources
	changed       int32  // state change flags for the next FETCH reply
	req           Request
	fetch         fetch
	logged        map[string]loggedError // by the operation that failed
}

// A metric is a Metric with its descriptor and the defaults of its Cluster.
type metric struct {
	*Metric
	desc      pdu.Desc
	fetch     FetchFunc
	source    *Source
	requested *requested // nil without an instance domain
}

// New returns an agent. It returns an error if the tables are wrong or contradict
// each other; the error lists all problems.
//
// Both interfaces agents.ContextEnder and agents.AttrSetter cost pmcd extra work.
// The agent implements them only if c.EndClient or c.WantAttrs ask for that.
func New(c Config) (agents.Agent, error) {
	a := &agent{
		conf:    c,
		log:     cmp.Or(c.Log, slog.Default()),
		fixed:   make(map[pdu.PMID]*metric),
		indoms:  make(map[pdu.InDom]*InDom),
		insts:   make(map[pdu.InDom]*requested),
		cluster: make(map[int]*Cluster),
		logged:  make(map[string]loggedError),
		names:   new(nametree.Tree),
	}
	a.fetch.init(a)
	if err := a.addTables(); err != nil {
		return nil, err
	}
	switch {
	case c.WantAttrs:
		a.clients = make(map[int32]*Client)
		return withAttrs{withClients{a}}, nil
	case c.EndClient != nil:
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

// addTables adds the tables of the Config to a. The error lists all problems.
func (a *agent) addTables() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d := a.conf.Domain; d < 1 || d > pdu.MaxDomain {
		return fmt.Errorf("domain %d is not in 1 to %d", d, pdu.MaxDomain)
	}
	for i := range a.conf.Clusters {
		c := &a.conf.Clusters[i]
		if a.cluster[c.Cluster] != nil {
			add("cluster %d is defined twice", c.Cluster)
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
			err = errors.New("its cluster and item are defined twice")
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
	if len(a.conf.Subtrees) > 0 {
		if err := a.rebuild(); err != nil {
			add("%w", err)
		}
	}
	var err error
	if a.help, err = ParseHelp(a.conf.Help); err != nil {
		add("help: %w", err)
	}
	if len(a.conf.Metrics)+len(a.conf.Subtrees) == 0 {
		add("no metrics")
	}
	return errors.Join(errs...)
}

// logName returns the name of m in log lines and errors.
func (m *Metric) logName() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("%d.%d", m.Cluster, m.Item)
}

// newMetric checks a row of the table of metrics, and adds its instance domain
// to a.
func (a *agent) newMetric(row *Metric) (*metric, error) {
	if row.Cluster < 0 || row.Cluster > 4095 || row.Item < 0 || row.Item > 1023 {
		return nil, fmt.Errorf("cluster %d is not in 0 to 4095, or item %d not in 0 to 1023", row.Cluster, row.Item)
	}
	if row.Type < pdu.Metric32 || row.Type > pdu.MetricHighResEvent {
		return nil, fmt.Errorf("type %d is not a type of values", row.Type)
	}
	if !slices.Contains([]pdu.Sem{pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete}, row.Sem) {
		return nil, fmt.Errorf("semantics %d are not counter, instant or discrete", row.Sem)
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
		m.requested = a.insts[m.desc.InDom]
	}
	if _, err := row.Labels.encode(pdu.NoInst, pdu.LabelItem); err != nil {
		return nil, err
	}
	return m, nil
}

func (a *agent) indom(d *InDom) pdu.InDom { return pdu.NewInDom(a.conf.Domain, d.Serial) }

// addInDom adds d to the instance domains of a.
func (a *agent) addInDom(d *InDom) error {
	if d.Serial < 0 || d.Serial > 1<<22-1 {
		return fmt.Errorf("instance domain: serial %d is not in 0 to 4194303", d.Serial)
	}
	id := a.indom(d)
	switch old := a.indoms[id]; {
	case old == d:
		return nil
	case old != nil:
		return fmt.Errorf("instance domain %d is defined twice", d.Serial)
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
	a.insts[id] = newRequested(a, id, d.Insts)
	return nil
}

// begin starts a request. Unless it returns an error, end must be called.
func (a *agent) begin(ctx context.Context, o agents.Origin, p *pdu.Profile) (*Request, error) {
	a.requestNumber++
	a.req = Request{Origin: o, Profile: p, a: a, ctx: ctx}
	if a.clients != nil {
		a.client(o.Client) // remember the client
	}
	if a.conf.Check != nil {
		if err := a.conf.Check(ctx, &a.req); err != nil {
			a.req.ctx = nil
			return nil, a.errno("check", "", err)
		}
	}
	return &a.req, nil
}

// end ends a request.
func (a *agent) end(r *Request) {
	if a.conf.Done != nil {
		a.conf.Done(r)
	}
	r.Profile, r.ctx = nil, nil
}

// read reads s, unless it has been read in this request. It returns the error of
// the read.
func (a *agent) read(ctx context.Context, s *Source) error {
	if s == nil || s.Read == nil {
		return nil
	}
	if s.a != a || s.requestNumber != a.requestNumber {
		s.a, s.requestNumber = a, a.requestNumber
		a.sourcesRead++
		if s.err = s.Read(ctx, &a.req); a.req.err() != nil {
			s.err = a.req.ended // Read may have returned without all data
		}
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
