package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

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

	domains  []*domain // by their numbers
	indoms   map[pdu.InDom]*indom
	series   map[*Metric]map[string]*Series // of instances
	labelled map[string]bool                // labels were asked for
	requests int                            // for values
	pid      int
	usage    *Daemon
}

// An indom is an instance domain.
type indom struct {
	InDom
	id     pdu.InDom
	names  map[int32]string // of instances
	asked  int              // the last request for values after which there was one for names
	sample int              // that names belong to
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
	t.indoms, t.series, t.labelled = make(map[pdu.InDom]*indom), make(map[*Metric]map[string]*Series), make(map[string]bool)
	for i := range list {
		d, m := &list[i].Desc, &t.s.Metrics[i]
		*m = Metric{Name: list[i].Name, PMID: list[i].PMID, Type: list[i].Type, Semantics: list[i].Semantics,
			Units: list[i].Units, InDom: list[i].InDom}
		if list[i].Err != nil {
			m.Error = errorText(list[i].Err)
			continue
		}
		if err := t.describeMetric(ctx, d, m); err != nil {
			return err
		}
	}
	if err := t.labels(ctx, pmapi.LabelContext, 0, "host"); err != nil {
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

// describeMetric asks for the texts and labels of a metric, and for its instance domain. That
// there are none is no error.
func (t *taker) describeMetric(ctx context.Context, d *pdu.Desc, m *Metric) (err error) {
	if m.OneLine, err = t.c.Text(ctx, d.PMID, pmapi.TextOneLine); metrics.IsLost(err) {
		return err
	}
	if m.Help, err = t.c.Text(ctx, d.PMID, pmapi.TextHelp); metrics.IsLost(err) {
		return err
	}
	number, cluster := d.PMID.Domain(), d.PMID.Cluster()
	for _, level := range []struct {
		kind  pmapi.LabelKind
		ident uint32
		name  string
	}{
		{pmapi.LabelDomain, uint32(number), fmt.Sprintf("domain %d", number)},
		{pmapi.LabelCluster, uint32(pdu.NewPMID(number, cluster, 0)), fmt.Sprintf("cluster %d.%d", number, cluster)},
		{pmapi.LabelItem, uint32(d.PMID), m.Name},
	} {
		if err := t.labels(ctx, level.kind, level.ident, level.name); err != nil {
			return err
		}
	}
	at, ok := slices.BinarySearchFunc(t.domains, number, func(d *domain, number int) int { return cmp.Compare(d.number, number) })
	if !ok {
		t.domains = slices.Insert(t.domains, at, &domain{number: number})
	}
	t.domains[at].add(d, m)
	if d.InDom == pdu.NoInDom || t.indoms[d.InDom] != nil {
		return nil
	}
	return t.describeInDom(ctx, d.InDom)
}

func (d *domain) add(desc *pdu.Desc, m *Metric) {
	if n := len(d.parts); n == 0 || len(d.parts[n-1].ids) == together {
		d.parts = append(d.parts, part{})
	}
	p := &d.parts[len(d.parts)-1]
	p.ids, p.descs, p.metrics = append(p.ids, desc.PMID), append(p.descs, *desc), append(p.metrics, m)
}

// labels asks once for the labels of one level, which belong to what is called name.
func (t *taker) labels(ctx context.Context, kind pmapi.LabelKind, ident uint32, name string) error {
	if t.labelled[name] {
		return nil
	}
	t.labelled[name] = true
	sets, err := t.c.LabelsAt(ctx, kind, ident)
	if metrics.IsLost(err) {
		return err
	}
	for _, set := range sets {
		if kind == pmapi.LabelContext { // of the connection
			set.Labels = slices.DeleteFunc(set.Labels, func(l pmapi.Label) bool { return l.Name == "userid" || l.Name == "groupid" })
		}
		if len(set.Labels) == 0 {
			continue
		}
		of := name
		if kind == pmapi.LabelInstances {
			of += "[" + cmp.Or(t.indoms[pdu.InDom(ident)].names[set.Inst], strconv.Itoa(int(set.Inst))) + "]"
		}
		t.s.Labels[of] = pmapi.LabelsJSON(set.Labels)
	}
	return nil
}

func (t *taker) describeInDom(ctx context.Context, id pdu.InDom) (err error) {
	d := &indom{InDom: InDom{ID: id.String(), Instances: []Instance{}}, id: id}
	t.indoms[id] = d
	if d.OneLine, err = t.c.InDomText(ctx, id, pmapi.TextOneLine); metrics.IsLost(err) {
		return err
	}
	if err := t.instances(ctx, d); metrics.IsLost(err) {
		return err
	} else if err != nil {
		d.Error = errorText(err)
	}
	for inst, name := range d.names {
		d.Instances = append(d.Instances, Instance{inst, name})
	}
	slices.SortFunc(d.Instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	if err := t.labels(ctx, pmapi.LabelInDom, uint32(id), "instance domain "+d.ID); err != nil {
		return err
	}
	return t.labels(ctx, pmapi.LabelInstances, uint32(id), "instance "+d.ID)
}

// instances asks for the instances of a domain.
func (t *taker) instances(ctx context.Context, d *indom) error {
	list, err := t.c.Instances(ctx, d.id)
	if err != nil {
		return err
	}
	d.names = make(map[int32]string, len(list))
	for _, inst := range list {
		d.names[inst.ID] = inst.Name
	}
	return nil
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

// errorText returns the text of an error without names, which are the same.
func errorText(err error) string {
	var code pdu.Errno
	if errors.As(err, &code) {
		return code.Error()
	}
	return err.Error()
}
