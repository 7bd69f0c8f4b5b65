package gather

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// families makes families of the values in g.result, which is that of a fetch for p.
func (g *Gatherer) families(ctx context.Context, c Client, p *plan) ([]*dto.MetricFamily, error) {
	g.scrape++
	owners := make(map[string]string) // names of metrics by those for Prometheus
	var list []*dto.MetricFamily
	for i, m := range p.metrics {
		samples, err := g.samples(ctx, c, p, m, &g.result.Sets[i])
		if err != nil {
			return nil, err
		}
		typ := dto.MetricType_GAUGE
		if m.isCounter() {
			typ = dto.MetricType_COUNTER
		}
		for _, pcp := range m.names {
			name := strings.ReplaceAll(pcp, ".", "_")
			if m.isString() {
				name += "_info"
			}
			if !model.LegacyValidation.IsValidMetricName(name) {
				g.logOnce(slog.LevelWarn, "name "+pcp, "metric {metric:q} is left out: its name is not valid for Prometheus", "metric", pcp)
				continue
			}
			if first, ok := owners[name]; ok {
				g.logOnce(slog.LevelWarn, "name "+pcp, "metric {metric} is left out: {first} has the name {name}, too",
					"metric", pcp, "first", first, "name", name)
				continue
			}
			owners[name] = pcp
			if len(samples) == 0 {
				continue
			}
			f := &dto.MetricFamily{Name: &name, Type: &typ, Metric: samples}
			if m.help != "" {
				f.Help = &m.help
			}
			list = append(list, f)
		}
	}
	return list, nil
}

// isCounter reports whether m is a counter for Prometheus. As in pmproxy, semantics that do not
// exist are those of a counter.
func (m *metric) isCounter() bool {
	return m.desc.Sem != pdu.SemInstant && m.desc.Sem != pdu.SemDiscrete && !m.isString()
}

// isString reports whether the values of m are strings.
func (m *metric) isString() bool { return m.desc.ValueType == pdu.MetricString }

// samples returns the values of a metric with their labels.
func (g *Gatherer) samples(ctx context.Context, c Client, p *plan, m *metric, set *pdu.ValueSet) ([]*dto.Metric, error) {
	if set.Err < 0 || len(set.Values) == 0 {
		return nil, nil
	}
	var d *indom
	if id := m.desc.InDom; id != pdu.NoInDom {
		d = p.indoms[id]
		if d == nil {
			d = new(indom)
			p.indoms[id] = d
		}
		if d.asked != g.scrape {
			d.asked = g.scrape
			if err := d.refresh(ctx, c, id); err != nil {
				return nil, err
			}
		}
		if m.indom != d.version {
			m.series, m.own, m.indom = nil, nil, d.version
		}
	}
	list := make([]*dto.Metric, 0, len(set.Values))
	for _, v := range set.Values {
		value, err := pmapi.Decode(set, v, m.desc.ValueType)
		if err != nil {
			continue
		}
		x := 1.0 // of a string
		if !m.isString() {
			if x, err = number(value); err != nil {
				continue
			}
		}
		s := m.seriesOf(d, v.Inst)
		if s == nil || s.scrape == g.scrape { // no such instance, or it has come already
			continue
		}
		s.scrape = g.scrape
		if s.same {
			g.logOnce(slog.LevelWarn, "labels "+m.names[0], "a value of {metric} is left out: another one has the same labels", "metric", m.names[0])
			continue
		}
		sample := &dto.Metric{Label: s.labels}
		if m.isString() {
			sample.Label = m.withString(s.labels, value)
		}
		if m.isCounter() {
			sample.Counter = &dto.Counter{Value: &x}
		} else {
			sample.Gauge = &dto.Gauge{Value: &x}
		}
		list = append(list, sample)
	}
	return list, nil
}

// number returns a value as Prometheus has it. A number of 32 bits has the digits that it has
// in pmproxy, which are fewer than those of the same number with 64 bits.
func number(v pmapi.Value) (float64, error) {
	x, err := v.Float64()
	if err != nil || v.Type() != pdu.MetricFloat {
		return x, err
	}
	return strconv.ParseFloat(strconv.FormatFloat(x, 'g', 8, 64), 64)
}
