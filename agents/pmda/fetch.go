package pmda

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A fetch is the state of a call of Fetch. There is one at a time, and its
// memory is used again.
type fetch struct {
	a        *agent
	ctx      context.Context
	w        *pdu.ResultWriter
	v        Value
	insts    pdu.InDomProfile
	allInsts bool      // insts are all
	hasValue bool      // the metric has a value
	lastErr  pdu.Errno // what the last function said
	scratch  []byte    // for values that are encoded
	visit    func(inst int32, name string, data any) bool

	// The same metrics are fetched again and again.
	ids     []pdu.PMID
	metrics []*metric // of ids; nil for those that there are not
}

func (f *fetch) init(a *agent) {
	f.a = a
	f.visit = f.instance
}

// Fetch implements [agents.Agent].
func (a *agent) Fetch(ctx context.Context, fr *agents.FetchRequest, w *pdu.ResultWriter) error {
	r, err := a.begin(ctx, fr.Origin, fr.Profile)
	if err != nil {
		return err
	}
	defer a.end(r)
	if a.conf.BeforeFetch != nil {
		if err := a.conf.BeforeFetch(ctx, r, fr.PMIDs); err != nil {
			return a.errno("fetch", "", err)
		}
	}
	a.refreshNames(ctx)
	f := &a.fetch
	f.ctx, f.w = ctx, w
	defer f.reset()
	if !slices.Equal(f.ids, fr.PMIDs) {
		f.ids = append(f.ids[:0], fr.PMIDs...)
		f.lookUp()
	}
	for i, m := range f.metrics {
		if err := ctx.Err(); err != nil {
			return a.errno("fetch", "", err)
		}
		f.metric(f.ids[i], m)
		if w.Err() != nil {
			return nil // a client can ask for more than an answer may have
		}
	}
	if a.changed != 0 {
		w.SetTime(a.changed, 0)
		a.changed = 0
	}
	return nil
}

// reset lets go of what is not the agent's.
func (f *fetch) reset() {
	f.ctx, f.w, f.v, f.insts = nil, nil, Value{}, pdu.InDomProfile{}
	if cap(f.scratch) > 64<<10 {
		f.scratch = nil
	}
	if len(f.ids) > maxRemembered {
		f.ids, f.metrics = nil, nil
	}
}

// maxRemembered is how many metrics are remembered.
const maxRemembered = 4096

// lookUp finds the metrics of ids, also anew in the middle of a fetch.
func (f *fetch) lookUp() {
	f.metrics = f.metrics[:0]
	for _, id := range f.ids {
		f.metrics = append(f.metrics, f.a.metrics[id])
	}
}

// metric appends the value set of one metric; m is nil if there is none such.
func (f *fetch) metric(id pdu.PMID, m *metric) {
	switch {
	case m == nil:
		f.w.Fail(id, pdu.ErrnoPMID)
		return
	case m.fetch == nil:
		f.w.Fail(id, 0)
		return
	}
	f.v.r, f.v.m = &f.a.req, m
	f.hasValue, f.lastErr = false, 0
	f.values(m)
	switch {
	case !f.hasValue:
		f.w.Fail(id, f.lastErr)
	case f.lastErr == 0 && len(f.a.logged) > 0:
		f.a.clearError("fetch of ", m.logName())
	}
}

// values sets the values of a metric.
func (f *fetch) values(m *metric) {
	if m.InDom != nil {
		// A client that wants no instance of it needs nothing to be read.
		if m.desc.InDom != f.insts.InDom { // else it is that of the metric before
			f.insts = f.a.req.Profile.For(m.desc.InDom)
			f.allInsts = f.insts.All()
		}
		if f.insts.Exclude && len(f.insts.Insts) == 0 {
			return
		}
		if !f.read(m.InDom.Source) {
			return
		}
	}
	if !f.read(m.source) {
		return
	}
	f.v.index = -1
	if m.InDom == nil {
		f.value(pdu.NoInst, "", nil)
		return
	}
	m.InDom.Insts.Each(f.visit)
}

// read reads a Source. The log has a failure once, not for each of its metrics.
func (f *fetch) read(s *Source) bool {
	if s == nil || s.a == f.a && s.requestNumber == f.a.requestNumber && s.err == nil && s.failedMetric == "" {
		return true // there is none, or it was read before
	}
	if err := f.a.read(f.ctx, s); err != nil {
		if s.failedMetric == "" {
			s.failedMetric = f.v.m.logName()
		}
		f.lastErr = f.a.errno("fetch of ", s.failedMetric, err)
		return false
	}
	if s.failedMetric != "" {
		f.a.clearError("fetch of ", s.failedMetric)
	}
	return true
}

func (f *fetch) instance(inst int32, name string, data any) bool {
	f.v.index++
	if f.allInsts || f.insts.Includes(inst) {
		f.value(inst, name, data)
	}
	return f.ctx.Err() == nil && f.w.Err() == nil
}

// value calls the function of a metric for one instance.
func (f *fetch) value(inst int32, name string, data any) {
	v := &f.v
	v.inst, v.name, v.data, v.kind = inst, name, data, unset
	err := v.m.fetch(f.ctx, v)
	if err == nil && v.kind != unset {
		err = v.encode(&f.scratch)
	}
	f.lastErr = 0
	switch {
	case err != nil:
		f.lastErr = f.errno(err)
		return
	case v.kind == unset:
		return
	case !f.hasValue:
		f.w.Begin(v.m.desc.PMID)
		f.hasValue = true
	}
	v.put(f.w)
}

func (f *fetch) errno(err error) pdu.Errno {
	return f.a.errno("fetch of ", f.v.m.logName(), err)
}
