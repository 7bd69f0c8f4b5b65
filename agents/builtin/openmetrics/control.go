package openmetrics

import (
	"fmt"

	"github.com/gopcp/pmcd/pdu"
)

// A control is a metric of the agent itself, openmetrics.control.*, of cluster 0. All but debug have
// an instance for each source, and one for the sums of all.
type control struct {
	item    int
	name    string
	typ     pdu.MetricType
	sem     pdu.Sem
	units   pdu.Units
	oneLine string

	number func(*stats) uint64
	debug  func(*agent) uint64
}

var controls = []control{
	{item: 1, name: "calls", typ: pdu.MetricU64, sem: pdu.SemCounter, units: pdu.Count,
		oneLine: "how often each source was read", number: func(s *stats) uint64 { return s.calls }},
	{item: 2, name: "fetch_time", typ: pdu.MetricU64, sem: pdu.SemCounter, units: pdu.Msec,
		oneLine: "how long the reads of each source took, without the time to parse pages", number: func(s *stats) uint64 { return uint64(s.fetched.Milliseconds()) }},
	{item: 3, name: "parse_time", typ: pdu.MetricU64, sem: pdu.SemCounter, units: pdu.Msec,
		oneLine: "how long it took to parse the pages of each source", number: func(s *stats) uint64 { return uint64(s.parsed.Milliseconds()) }},
	{item: 4, name: "debug", typ: pdu.MetricU32, sem: pdu.SemDiscrete,
		oneLine: "1 if each read is logged, which pmstore(1) sets, otherwise 0",
		debug: func(a *agent) uint64 {
			if a.debug {
				return 1
			}
			return 0
		}},
	{item: 5, name: "status", typ: pdu.MetricString, sem: pdu.SemInstant,
		oneLine: "success, or what is wrong with the last read of each source"},
	{item: 6, name: "status_code", typ: pdu.Metric32, sem: pdu.SemDiscrete,
		oneLine: "HTTP status of the last read of each source", number: func(s *stats) uint64 { return uint64(uint32(s.code)) }},
}

// control returns the control metric with a PMID, or nil.
func (a *agent) control(id pdu.PMID) *control {
	if n := id.Item(); id.Domain() == a.domain && id.Cluster() == 0 && n >= 1 && n <= len(controls) {
		return &controls[n-1]
	}
	return nil
}

// addControl adds the names of the control metrics.
func (a *agent) addControl() {
	for i := range controls {
		if err := a.addName(controls[i].fullName(a), pdu.NewPMID(a.domain, 0, controls[i].item)); err != nil {
			a.log.Warn("the names of the agent's own metrics are left out: {error}", "error", err)
			return
		}
	}
}

func (c *control) fullName(a *agent) string { return a.root + ".control." + c.name }

func (c *control) desc(a *agent, id pdu.PMID) pdu.Desc {
	d := pdu.Desc{PMID: id, ValueType: c.typ, InDom: pdu.NewInDom(a.domain, 0), Sem: c.sem, Units: c.units}
	if c.debug != nil {
		d.InDom = pdu.NoInDom
	}
	return d
}

// putControl appends the value set of a control metric.
func (a *agent) putControl(c *control, id pdu.PMID, p *pdu.Profile, w *pdu.ResultWriter) {
	w.Begin(id)
	if c.debug != nil {
		w.Word(pdu.NoInst, uint32(c.debug(a)))
		return
	}
	all := make([]*stats, a.clusters.known)
	sum := stats{status: "none"}
	if a.saveErr != nil {
		sum.status = fmt.Sprintf("%s: %v", notSaved, a.saveErr)
	}
	for _, s := range a.sources {
		s.mu.Lock()
		st := s.stats
		s.mu.Unlock()
		all[s.cluster] = &st
		sum.calls += st.calls
		sum.fetched += st.fetched
		sum.parsed += st.parsed
	}
	if len(all) > 0 {
		all[0] = &sum
	}
	selected := p.For(pdu.NewInDom(a.domain, 0))
	for i, st := range all {
		switch {
		case st == nil || !selected.Includes(int32(i)):
		case c.typ == pdu.MetricString:
			w.String(int32(i), st.status)
		case c.typ == pdu.Metric32:
			w.Word(int32(i), uint32(c.number(st)))
		default:
			w.Uint64(int32(i), c.typ, c.number(st))
		}
	}
}
