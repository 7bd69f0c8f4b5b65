package pmda

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A fetch is the state of a call of Fetch. There is one call at a time, and the
// next one reuses the memory.
type fetch struct {
	a         *agent
	ctx       context.Context
	w         *pdu.ResultWriter
	v         Value
	hasValue  bool         // the current metric has a value
	lastErr   pdu.Errno    // of the last call of a FetchFunc, or of a Source
	scratch   []byte       // for Value.encode
	insts     []int32      // for requested.instances
	requested []*requested // of the instance domains of this fetch
	visit     func(inst int32, name string, data any) bool

	// Clients fetch the same metrics again and again, so the result of the last
	// lookUp is kept.
	ids     []pdu.PMID
	metrics []*metric // of ids; nil for an unknown id
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
	f.ctx, f.w, f.v.r = ctx, w, r
	defer f.reset()
	if !slices.Equal(f.ids, fr.PMIDs) {
		f.ids = append(f.ids[:0], fr.PMIDs...)
		f.lookUp()
	}
	for i, m := range f.metrics {
		if f.stopped() {
			break
		}
		f.metric(f.ids[i], m)
	}
	switch {
	case w.Err() != nil:
		return nil // too large; w has the error
	case r.err() != nil:
		return r.err()
	}
	if a.changed != 0 {
		w.SetTime(a.changed, 0)
		a.changed = 0
	}
	return nil
}

// reset clears pointers to memory of the caller, and frees large buffers.
func (f *fetch) reset() {
	f.ctx, f.w, f.v = nil, nil, Value{}
	for _, r := range f.requested {
		r.reset()
	}
	f.requested = f.requested[:0]
	if cap(f.scratch) > 64<<10 {
		f.scratch = nil
	}
	if len(f.ids) > maxRemembered {
		f.ids, f.metrics = nil, nil
	}
}

// maxRemembered is the number of metrics up to which ids are kept for the next
// fetch.
const maxRemembered = 4096

// lookUp sets metrics from ids. Subtree.Set calls it, possibly during a fetch.
func (f *fetch) lookUp() {
	f.metrics = f.metrics[:0]
	for _, id := range f.ids {
		f.metrics = append(f.metrics, f.a.metrics[id])
	}
}

// metric appends the value set of one metric. m is nil if there is no such metric.
func (f *fetch) metric(id pdu.PMID, m *metric) {
	switch {
	case m == nil:
		f.w.Fail(id, pdu.ErrnoPMID)
		return
	case m.fetch == nil:
		f.w.Fail(id, 0)
		return
	}
	f.v.m = m
	f.hasValue, f.lastErr = false, 0
	f.values(m)
	switch {
	case !f.hasValue:
		f.w.Fail(id, f.lastErr)
	case f.lastErr == 0 && len(f.a.logged) > 0:
		f.a.clearError("fetch of ", m.logName())
	}
}

// values appends the values of a metric.
func (f *fetch) values(m *metric) {
	r := m.requested
	if r == nil {
		if f.read(m.source) {
			f.v.index = -1
			f.value(pdu.NoInst, "", nil)
		}
		return
	}
	r.begin()
	if r.none() || !f.read(m.InDom.Source) || !f.read(m.source) {
		return // for no instance, no Source needs to be read
	}
	if !r.few {
		f.v.index = -1
		r.insts.Each(f.visit)
		return
	}
	list := r.instances()
	for i := range list {
		in := &list[i]
		f.v.index, f.v.listed = in.index, in
		f.value(in.inst, in.name, in.data)
		if f.stopped() {
			break
		}
	}
	f.v.listed = nil
}

// stopped reports whether the fetch is over, because the client no longer waits or the
// reply is too large. It is called for each metric and each value.
func (f *fetch) stopped() bool {
	return f.v.r.Err() != nil || f.ctx.Err() != nil || f.w.Err() != nil
}

// read reads a Source and reports whether that succeeded. A failure is logged
// once, and not for each metric of the Source.
func (f *fetch) read(s *Source) bool {
	if s == nil || s.a == f.a && s.requestNumber == f.a.requestNumber && s.err == nil && s.failedMetric == "" {
		return true // no Source, or it was read before in this request
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

// instance is called for each instance of the metric's instance domain, unless a few
// are requested.
func (f *fetch) instance(inst int32, name string, data any) bool {
	f.v.index++
	if r := f.v.m.requested; r.all || r.profile.Includes(inst) {
		f.value(inst, name, data)
		return !f.stopped()
	}
	return f.v.r.Err() == nil
}

// value calls the function of the metric for one instance, and appends the value.
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
