package openmetrics

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// scanInterval is how often at most a fetch looks for new sources.
const scanInterval = time.Second

// Fetch implements [agents.Agent].
func (a *agent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if time.Since(a.scanned) > scanInterval {
		a.scan()
	}
	var list []*source
	in := make(map[int]bool)
	for _, id := range r.PMIDs {
		if s := a.byCluster[id.Cluster()]; s != nil && id.Domain() == a.domain && !in[s.cluster] {
			in[s.cluster] = true
			list = append(list, s)
		}
	}
	a.read(ctx, list, a.timeout)
	for _, id := range r.PMIDs {
		if err := a.put(ctx, id, r.Profile, w); err != nil {
			return err
		}
		if w.Err() != nil {
			return nil // too large; w has the error
		}
	}
	if a.changed {
		w.SetTime(pdu.StateNamesChange, 0)
		a.changed = false
	}
	return nil
}

// put appends the value set of a metric.
func (a *agent) put(ctx context.Context, id pdu.PMID, p *pdu.Profile, w *pdu.ResultWriter) error {
	if c := a.control(id); c != nil {
		a.putControl(c, id, p, w)
		return nil
	}
	s, m, err := a.metric(id)
	if err != nil {
		w.Fail(id, pdu.ErrnoPMID)
		return nil
	}
	defer s.mu.Unlock()
	code := pdu.ErrnoAgain // of a metric that has no values now
	if s.valid && s.running == nil && m.insts != nil {
		code = pdu.ErrnoInst
	}
	if m.insts == nil {
		if len(m.cells) == 0 || !s.current(m.cells[0]) {
			w.Fail(id, pdu.ErrnoAgain)
			return nil
		}
		w.Begin(id)
		m.put(w, pdu.NoInst, 0)
		return nil
	}
	selected := p.For(pdu.NewInDom(a.domain, instSerial(s.cluster, m.item)))
	n := min(m.insts.known, len(m.cells))
	any, found := false, false
	add := func(i int) {
		any = true
		if !s.current(m.cells[i]) {
			return
		}
		if !found {
			found = true
			w.Begin(id)
		}
		m.put(w, int32(i), i)
	}
	if selected.Exclude && !selected.All() {
		for _, inst := range slices.Compact(slices.Sorted(slices.Values(selected.Insts))) {
			any = any || inst >= 0 && int(inst) < m.insts.known
			if inst >= 0 && int(inst) < n {
				add(int(inst))
			}
		}
	} else {
		all := selected.All()
		any = m.insts.known > n
		for i := range n {
			if i%1024 == 1023 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if all || selected.Includes(int32(i)) {
				add(i)
			}
		}
	}
	switch {
	case found:
	case !any:
		w.Fail(id, 0)
	case code == pdu.ErrnoInst && !s.hasValues(m):
		w.Fail(id, pdu.ErrnoAgain)
	default:
		w.Fail(id, code)
	}
	return nil
}

// current reports whether a value is one of the last page, which has been read completely. The
// source is locked.
func (s *source) current(c cell) bool { return s.valid && c.seq > s.base && !c.bad }

// hasValues reports whether the last page has values of m.
func (s *source) hasValues(m *metric) bool {
	for _, c := range m.cells {
		if c.seq > s.base {
			return true
		}
	}
	return false
}

// put appends a value.
func (m *metric) put(w *pdu.ResultWriter, inst int32, i int) {
	bits := m.cells[i].bits
	switch m.typ {
	case pdu.Metric32, pdu.MetricU32:
		w.Word(inst, uint32(bits))
	case pdu.Metric64, pdu.MetricU64:
		w.Uint64(inst, m.typ, bits)
	case pdu.MetricFloat:
		w.Float32(inst, float32(math.Float64frombits(bits)))
	case pdu.MetricString:
		w.String(inst, m.texts[i])
	default:
		w.Float64(inst, math.Float64frombits(bits))
	}
}

// Store implements [agents.Storer]. Only openmetrics.control.debug can be stored.
func (a *agent) Store(_ context.Context, _ agents.Origin, r *pdu.Result) error {
	for _, set := range r.Sets {
		c := a.control(set.PMID)
		switch {
		case c == nil && set.PMID.Cluster() == 0:
			return pdu.ErrnoPMID
		case c == nil || c.debug == nil:
			return pdu.ErrnoPermission
		case len(set.Values) != 1 || set.Format != pdu.FormatInsitu:
			return pdu.ErrnoBadStore
		}
		n := int32(set.Values[0].Word)
		if n < 0 {
			return pdu.ErrnoBadStore
		}
		a.debug = n != 0
		a.log.Info("{metric} is set to {value}", "metric", c.fullName(a), "value", n)
	}
	return nil
}
