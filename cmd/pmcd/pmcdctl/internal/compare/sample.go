package compare

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

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
			t.requests++
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
			var ok bool
			if inst, ok, err = t.instance(ctx, t.indoms[d.InDom], v.Inst); err != nil {
				return err
			}
			if !ok { // it has gone meanwhile
				continue
			}
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

// instance returns the name of an instance. It asks for those of the domain once in each sample,
// as a process that executes another program has another name, and again if the instance is new.
func (t *taker) instance(ctx context.Context, d *indom, id int32) (name string, ok bool, err error) {
	if name, ok = d.names[id]; (!ok || d.sample != t.s.Samples) && d.asked != t.requests {
		before := d.names
		if err := t.instances(ctx, d); metrics.IsLost(err) {
			return "", false, err
		}
		d.asked, d.sample = t.requests, t.s.Samples
		d.Moving = d.Moving || !ok || !maps.Equal(before, d.names)
		name, ok = d.names[id]
	}
	return name, ok, nil
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
	for _, d := range t.indoms {
		if err := t.instances(ctx, d); metrics.IsLost(err) {
			return err
		} else if err != nil {
			d.names = nil
		}
		// What remains are the instances that were there all the time.
		stay := slices.DeleteFunc(d.Instances, func(i Instance) bool { return d.names[i.ID] != i.Name })
		d.Moving = d.Moving || len(stay) != len(d.Instances) || len(stay) != len(d.names)
		d.Instances = stay
		t.s.InDoms = append(t.s.InDoms, d.InDom)
	}
	slices.SortFunc(t.s.InDoms, func(a, b InDom) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range t.domains {
		took := slices.Sorted(slices.Values(d.took))
		t.s.Agents = append(t.s.Agents, Agent{d.number, took[len(took)/2].Microseconds(), took[len(took)-1].Microseconds()})
	}
	return nil
}
