package compare

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Options say what is in a snapshot.
type Options struct {
	Prefixes []string // of names; none are all
	Exclude  []string // subtrees that are left out
	Samples  int
	Interval time.Duration // between two samples
	PID      int           // of the pmcd; 0 is that of its pid file or of pmcd.pid
}

// Selects reports whether a metric is one of those that o selects.
func (o *Options) Selects(name string) bool {
	under := func(x string) bool { return name == x || strings.HasPrefix(name, x+".") }
	return !slices.ContainsFunc(o.Exclude, under) &&
		(len(o.Prefixes) == 0 || slices.ContainsFunc(o.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) }))
}

// Take takes a snapshot of each client's pmcd, all at the same time. The first one is fetched
// once more at the end, so that what the others have is between two of its samples.
func Take(ctx context.Context, o Options, clients ...*pmapi.Client) ([]*Snapshot, error) {
	takers := make([]*taker, len(clients))
	none := true
	for i, c := range clients {
		t := &taker{c: c, o: o, s: &Snapshot{Format: format, Host: c.Spec().String(), Labels: make(map[string]string)}}
		if err := t.describe(ctx); err != nil {
			return nil, err
		}
		none = none && len(t.s.Metrics) == 0
		takers[i] = t
	}
	if none {
		return nil, errors.New("there are no such metrics (pmcdctl list shows those that exist)")
	}
	fetch := func(takers []*taker) error {
		for _, t := range takers {
			if err := t.fetch(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range takers {
		t.usage = readDaemon(t.pid)
	}
	for i := range o.Samples {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(o.Interval):
			}
		}
		if err := fetch(takers); err != nil {
			return nil, err
		}
	}
	if len(takers) > 1 {
		if err := fetch(takers[:1]); err != nil {
			return nil, err
		}
	}
	var snapshots []*Snapshot
	for _, t := range takers {
		t.s.Daemon = t.usage.until(readDaemon(t.pid))
	}
	for _, t := range takers {
		if err := t.end(ctx); err != nil {
			return nil, err
		}
		snapshots = append(snapshots, t.s)
	}
	return snapshots, nil
}

// A taker takes a snapshot.
type taker struct {
	c *pmapi.Client
	o Options
	s *Snapshot

	domains []*domain
	insts   map[pdu.InDom]map[int32]string
	asked   map[pdu.InDom]bool             // for new instances, after a request
	indoms  map[pdu.InDom]int              // to s.InDoms
	series  map[*Metric]map[string]*Series // of instances
	pid     int
	usage   *Daemon
}

// A domain is the metrics of an agent, in parts that are fetched with one request each.
type domain struct {
	number int
	parts  []part
	took   []time.Duration
}

type part struct {
	ids     []pdu.PMID
	descs   []pdu.Desc
	metrics []*Metric
	result  pmapi.Result
}

// together is how many metrics a request is for: so few that it takes little time.
const together = 200

// describe asks for all that has no values.
func (t *taker) describe(ctx context.Context) error {
	names, err := t.names(ctx)
	if err != nil {
		return err
	}
	list, err := metrics.Descs(ctx, t.c, names)
	if err != nil {
		return err
	}
	t.s.Metrics = make([]Metric, len(list))
	t.indoms, t.insts = make(map[pdu.InDom]int), make(map[pdu.InDom]map[int32]string)
	t.asked = make(map[pdu.InDom]bool)
	t.series = make(map[*Metric]map[string]*Series)
	byDomain := make(map[int]*domain)
	clusters := make(map[pdu.PMID]bool)
	for i := range list {
		d, m := &list[i].Desc, &t.s.Metrics[i]
		*m = Metric{Name: list[i].Name, PMID: list[i].PMID, Type: list[i].Type, Semantics: list[i].Semantics,
			Units: list[i].Units, InDom: list[i].InDom}
		if list[i].Err != nil {
			m.Error = errorText(list[i].Err)
			continue
		}
		if err := t.texts(ctx, d.PMID, m); err != nil {
			return err
		}
		number := int(d.PMID.Domain())
		if byDomain[number] == nil {
			byDomain[number] = &domain{number: number}
			if err := t.labels(ctx, pdu.LabelDomain, uint32(number), "domain "+strconv.Itoa(number)); err != nil {
				return err
			}
		}
		byDomain[number].add(d, m)
		if c := pdu.NewPMID(d.PMID.Domain(), d.PMID.Cluster(), 0); !clusters[c] {
			clusters[c] = true
			if err := t.labels(ctx, pdu.LabelCluster, uint32(c), "cluster "+strconv.Itoa(number)+"."+strconv.Itoa(int(c.Cluster()))); err != nil {
				return err
			}
		}
		if err := t.labels(ctx, pdu.LabelItem, uint32(d.PMID), m.Name); err != nil {
			return err
		}
		if _, ok := t.indoms[d.InDom]; d.InDom != pdu.NoInDom && !ok {
			t.indoms[d.InDom] = len(t.s.InDoms)
			if err := t.describeInDom(ctx, d.InDom); err != nil {
				return err
			}
		}
	}
	for _, d := range byDomain {
		t.domains = append(t.domains, d)
	}
	slices.SortFunc(t.domains, func(a, b *domain) int { return cmp.Compare(a.number, b.number) })
	if err := t.labels(ctx, pdu.LabelContext, 0, "host"); err != nil {
		return err
	}
	t.about(ctx)
	return nil
}

// names returns the names that are selected, sorted.
func (t *taker) names(ctx context.Context) (names []string, err error) {
	prefixes := t.o.Prefixes
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	for _, prefix := range prefixes {
		some, err := metrics.Names(ctx, t.c, prefix)
		if err != nil && !errors.Is(err, pdu.ErrnoName) {
			return nil, err
		}
		names = append(names, some...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !t.o.Selects(name) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (d *domain) add(desc *pdu.Desc, m *Metric) {
	if n := len(d.parts); n == 0 || len(d.parts[n-1].ids) == together {
		d.parts = append(d.parts, part{})
	}
	p := &d.parts[len(d.parts)-1]
	p.ids, p.descs, p.metrics = append(p.ids, desc.PMID), append(p.descs, *desc), append(p.metrics, m)
}

// texts asks for the help of a metric. That there is none is no error.
func (t *taker) texts(ctx context.Context, id pdu.PMID, m *Metric) (err error) {
	if m.OneLine, err = t.c.Text(ctx, id, pdu.TextOneLine); metrics.IsLost(err) {
		return err
	}
	if m.Help, err = t.c.Text(ctx, id, pdu.TextHelp); metrics.IsLost(err) {
		return err
	}
	return nil
}

// labels asks for the labels of one level, which belong to what is called name.
func (t *taker) labels(ctx context.Context, kind pdu.LabelKind, ident uint32, name string) error {
	sets, err := t.c.LabelsAt(ctx, kind, ident)
	if metrics.IsLost(err) {
		return err
	}
	for _, set := range sets {
		if kind == pdu.LabelContext { // of the connection
			set.Labels = slices.DeleteFunc(set.Labels, func(l pmapi.Label) bool { return l.Name == "userid" || l.Name == "groupid" })
		}
		if len(set.Labels) == 0 {
			continue
		}
		of := name
		if kind == pdu.LabelInstances {
			of += "[" + cmp.Or(t.insts[pdu.InDom(ident)][set.Inst], strconv.Itoa(int(set.Inst))) + "]"
		}
		t.s.Labels[of] = pmapi.LabelsJSON(set.Labels)
	}
	return nil
}

func (t *taker) describeInDom(ctx context.Context, id pdu.InDom) error {
	d := InDom{ID: id.String(), Instances: []Instance{}}
	var err error
	if d.OneLine, err = t.c.InDomText(ctx, id, pdu.TextOneLine); metrics.IsLost(err) {
		return err
	}
	insts, err := t.instances(ctx, id)
	if metrics.IsLost(err) {
		return err
	}
	if err != nil {
		d.Error = errorText(err)
	}
	for inst, name := range insts {
		d.Instances = append(d.Instances, Instance{inst, name})
	}
	slices.SortFunc(d.Instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	t.s.InDoms = append(t.s.InDoms, d)
	if err := t.labels(ctx, pdu.LabelInDom, uint32(id), "instance domain "+d.ID); err != nil {
		return err
	}
	return t.labels(ctx, pdu.LabelInstances, uint32(id), "instance "+d.ID)
}

// instances asks for the instances of a domain, and remembers their names.
func (t *taker) instances(ctx context.Context, id pdu.InDom) (map[int32]string, error) {
	list, err := t.c.Instances(ctx, id)
	if err != nil {
		return nil, err
	}
	insts := make(map[int32]string, len(list))
	for _, inst := range list {
		insts[inst.ID] = inst.Name
	}
	t.insts[id] = insts
	return insts, nil
}

// about asks the pmcd for its name, version and process.
func (t *taker) about(ctx context.Context) {
	text := func(name string) string {
		sample, err := metrics.NewPlainSampler(t.c, []metrics.Selection{{Name: name}}).Fetch(ctx)
		if err != nil || len(sample.Metrics) != 1 || len(sample.Metrics[0].Values) != 1 || sample.Metrics[0].Values[0].Err != nil {
			return ""
		}
		text, _ := sample.Metrics[0].Values[0].Is.Text()
		return text
	}
	t.s.Hostname, t.s.Version, t.s.Build = text("pmcd.hostname"), text("pmcd.version"), text("pmcd.build")
	if t.pid = t.o.PID; t.pid == 0 && t.c.Spec().Unix {
		t.pid = findDaemon(text("pmcd.pid"))
	}
}

// fetch takes a sample.
func (t *taker) fetch(ctx context.Context) error {
	first := t.s.Samples == 0
	for _, d := range t.domains {
		var took time.Duration
		for i := range d.parts {
			p := &d.parts[i]
			began := time.Now()
			if err := t.c.Fetch(ctx, p.ids, &p.result); err != nil {
				return err
			}
			took += time.Since(began)
			clear(t.asked)
			if !first && p.result.Changes&(pdu.StateRestartAgent|pdu.StateDropAgent|pdu.StateAddAgent) != 0 {
				t.s.Changes++
			}
			for j := range p.metrics {
				if err := t.add(ctx, p.metrics[j], &p.descs[j], &p.result.Sets[j]); err != nil {
					return err
				}
			}
		}
		d.took = append(d.took, took)
	}
	if t.s.End = time.Now(); first {
		t.s.Begin = t.s.End
	}
	t.s.Samples++
	return nil
}

// add adds the values of a metric to their series.
func (t *taker) add(ctx context.Context, m *Metric, d *pdu.Desc, set *pdu.ValueSet) error {
	if m.Error = ""; set.Err < 0 {
		m.Error = errorText(pdu.Errno(set.Err))
		return nil
	}
	if t.series[m] == nil {
		t.series[m] = make(map[string]*Series)
	}
	for _, v := range set.Values {
		is, err := pmapi.Decode(set, v, d.ValueType)
		if err != nil {
			m.Error = errorText(err)
			continue
		}
		inst := ""
		if d.InDom != pdu.NoInDom {
			name, ok := t.insts[d.InDom][v.Inst]
			if !ok && !t.asked[d.InDom] { // it is new
				t.asked[d.InDom] = true
				t.s.InDoms[t.indoms[d.InDom]].Moving = true
				insts, err := t.instances(ctx, d.InDom)
				if metrics.IsLost(err) {
					return err
				}
				name, ok = insts[v.Inst]
			}
			if !ok { // it has gone meanwhile
				continue
			}
			inst = name
		}
		s := t.series[m][inst]
		if s == nil {
			s = &Series{Instance: inst}
			t.series[m][inst] = s
		}
		t.addTo(s, is, d.Sem == pdu.SemCounter)
	}
	return nil
}

// maxText is how much of a text is kept.
const maxText = 1 << 10

// addTo adds a value to a series. A counter of 32 bits that has lost more than half of its range
// is taken to have wrapped around, as in pmapi.Rate: Compare finds a rate that it cannot have.
func (t *taker) addTo(s *Series, v pmapi.Value, counter bool) {
	f, err := v.Float64()
	text, textErr := v.Text()
	if textErr != nil {
		text = v.String()
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	s.Samples++
	s.Last = text
	if s.Samples == 1 {
		s.First = text
	}
	switch number := err == nil && !math.IsNaN(f) && !math.IsInf(f, 0); {
	case !number:
		s.Range = nil
	case s.Samples == 1:
		s.Range = &Range{First: f, Last: f, Min: f, Max: f}
	case s.Range != nil:
		r, step := s.Range, f-s.Range.Last
		if counter && (v.Type() == pdu.Metric32 || v.Type() == pdu.MetricU32) && step < -wrap/2 {
			r.Wraps++
			step += wrap
		} else if f < min(r.Last, r.Last/2) {
			r.Drops++
		}
		r.Step = max(r.Step, math.Abs(step))
		r.Last, r.Min, r.Max = f, min(r.Min, f), max(r.Max, f)
	}
}

// end completes the snapshot.
func (t *taker) end(ctx context.Context) error {
	for i := range t.s.Metrics {
		m := &t.s.Metrics[i]
		for _, s := range t.series[m] {
			m.Values = append(m.Values, *s)
		}
		slices.SortFunc(m.Values, func(a, b Series) int { return cmp.Compare(a.Instance, b.Instance) })
	}
	for id, at := range t.indoms {
		d := &t.s.InDoms[at]
		insts, err := t.instances(ctx, id)
		if metrics.IsLost(err) {
			return err
		}
		// What remains are the instances that were there all the time.
		stay := slices.DeleteFunc(d.Instances, func(i Instance) bool { return insts[i.ID] != i.Name })
		d.Moving = d.Moving || len(stay) != len(d.Instances) || len(stay) != len(insts)
		d.Instances = stay
	}
	slices.SortFunc(t.s.InDoms, func(a, b InDom) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range t.domains {
		took := slices.Sorted(slices.Values(d.took))
		t.s.Agents = append(t.s.Agents, Agent{d.number, took[len(took)/2].Microseconds(), took[len(took)-1].Microseconds()})
	}
	return nil
}

// errorText returns the text of an error without names, which are the same.
func errorText(err error) string {
	var code pdu.Errno
	if errors.As(err, &code) {
		return code.Error()
	}
	return err.Error()
}
