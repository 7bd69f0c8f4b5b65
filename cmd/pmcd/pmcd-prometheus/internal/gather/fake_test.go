package gather

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A fake is a pmcd in memory.
type fake struct {
	metrics []fakeMetric // in the order of the name space
	insts   map[pdu.InDom][]pdu.Inst
	labels  map[level][]pmapi.Label
	ofInsts map[pdu.InDom][]pmapi.InstLabels
	lost    error         // of all requests
	noLabel error         // of requests for labels
	noInst  error         // of requests for instances
	changes int32         // reported with the next fetch
	slow    time.Duration // how long a help text takes
	noText  error         // of requests for the help text of the last metric
	calls   map[string]int

	fetching time.Duration // how long a fetch takes
	lostOnce bool          // a fetch took too long, so that the connection was closed

	down    map[int]bool // domains of agents that are down
	dynamic map[int]bool // domains of agents that have the names of their metrics
	texts   map[int]int  // requests for help texts, by domain
	fetched []pdu.PMID   // by the last fetch
}

// isDown returns an error if an agent is down.
func (f *fake) isDown(domain int) error {
	if f.down[domain] {
		return pdu.ErrnoNoAgent
	}
	return nil
}

type fakeMetric struct {
	name   string
	desc   pdu.Desc
	err    pdu.Errno // of the value set
	noDesc error
	help   string
	insts  []int32 // of values; the one of a metric without instances is pdu.NoInst
	values []pmapi.Value
}

// single returns a metric with one value.
func single[T int32 | uint32 | int64 | uint64 | float32 | float64 | string](item int, name string, sem pdu.Sem, x T) fakeMetric {
	v := pmapi.ValueOf(x)
	id := pdu.NewPMID(5, 0, item)
	return fakeMetric{
		name: name, desc: pdu.Desc{PMID: id, ValueType: v.Type(), InDom: pdu.NoInDom, Sem: sem},
		insts: []int32{pdu.NoInst}, values: []pmapi.Value{v},
	}
}

var (
	fakeDom  = pdu.NewInDom(5, 1)
	otherDom = pdu.NewInDom(5, 2)
)

// perInst returns a metric with the values 0, 1, 2 ... for instances.
func perInst(item int, name string, d pdu.InDom, insts ...int32) fakeMetric {
	m := single(item, name, pdu.SemCounter, uint64(0))
	m.desc.InDom, m.insts, m.values = d, insts, nil
	for i := range insts {
		m.values = append(m.values, pmapi.ValueOf(uint64(i)))
	}
	return m
}

func (f *fake) call(name string) error {
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[name]++
	if f.lost != nil {
		return &pmapi.ConnError{Err: f.lost}
	}
	return nil
}

func (f *fake) find(id pdu.PMID) *fakeMetric {
	for i := range f.metrics {
		if f.metrics[i].desc.PMID == id {
			return &f.metrics[i]
		}
	}
	return nil
}

func (f *fake) Close() error { return nil }

func (f *fake) Traverse(_ context.Context, top string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := f.call("Traverse"); err != nil {
			yield("", err)
			return
		}
		found := false
		for _, m := range f.metrics {
			if d := m.desc.PMID.Domain(); f.dynamic[d] && f.down[d] {
				if top != "" && strings.HasPrefix(m.name, top) {
					yield("", pdu.ErrnoNoAgent)
					return
				}
				continue
			}
			if top == "" || m.name == top || strings.HasPrefix(m.name, top+".") {
				if found = true; !yield(m.name, nil) {
					return
				}
			}
		}
		if !found {
			yield("", fmt.Errorf("%q: %w", top, pdu.ErrnoName))
		}
	}
}

func (f *fake) Lookup(_ context.Context, names ...string) (ids []pdu.PMID, err error) {
	if err := f.call("Lookup"); err != nil {
		return nil, err
	}
	for _, name := range names {
		i := slices.IndexFunc(f.metrics, func(m fakeMetric) bool { return m.name == name })
		if i < 0 {
			ids, err = append(ids, pdu.NoPMID), pdu.ErrnoName
			continue
		}
		ids = append(ids, f.metrics[i].desc.PMID)
	}
	return ids, err
}

func (f *fake) Names(_ context.Context, id pdu.PMID) (names []string, err error) {
	if err := f.call("Names"); err != nil {
		return nil, err
	}
	for _, m := range f.metrics {
		if m.desc.PMID == id {
			names = append(names, m.name)
		}
	}
	return names, nil
}

func (f *fake) Descs(_ context.Context, ids ...pdu.PMID) (descs []pdu.Desc, err error) {
	if err := f.call("Descs"); err != nil {
		return nil, err
	}
	errs := make([]error, len(ids))
	for i, id := range ids {
		m := f.find(id)
		switch {
		case f.down[id.Domain()]:
			errs[i] = pdu.ErrnoNoAgent
		case m == nil:
			errs[i] = pdu.ErrnoPMID
		case m.noDesc != nil:
			errs[i] = m.noDesc
		default:
			descs = append(descs, m.desc)
			continue
		}
		descs = append(descs, pdu.Desc{PMID: pdu.NoPMID})
		err = &pmapi.ItemsError{Errs: errs}
	}
	return descs, err
}

func (f *fake) Text(_ context.Context, id pdu.PMID, _ pmapi.TextKind) (string, error) {
	time.Sleep(f.slow)
	if err := f.call("Text"); err != nil {
		return "", err
	}
	if f.texts == nil {
		f.texts = make(map[int]int)
	}
	f.texts[id.Domain()]++
	if err := f.isDown(id.Domain()); err != nil {
		return "", err
	}
	if m := &f.metrics[len(f.metrics)-1]; m.desc.PMID == id && f.noText != nil {
		return "", f.noText
	}
	return f.find(id).help, nil
}

func (f *fake) LabelsAt(_ context.Context, kind pmapi.LabelKind, ident uint32) ([]pmapi.InstLabels, error) {
	if err := f.call("LabelsAt"); err != nil {
		return nil, err
	}
	if f.noLabel != nil {
		return nil, f.noLabel
	}
	if kind == pmapi.LabelInstances {
		return f.ofInsts[pdu.InDom(ident)], nil
	}
	if labels, ok := f.labels[level{kind, ident}]; ok {
		return []pmapi.InstLabels{{Inst: pdu.NoInst, Labels: slices.Clone(labels)}}, nil
	}
	return nil, nil
}

func (f *fake) Instances(_ context.Context, d pdu.InDom) ([]pdu.Inst, error) {
	if err := f.call("Instances"); err != nil {
		return nil, err
	}
	return f.insts[d], f.noInst
}

func (f *fake) Fetch(ctx context.Context, ids []pdu.PMID, r *pmapi.Result) error {
	if err := f.call("Fetch"); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < f.fetching {
		f.lostOnce = true
		<-ctx.Done()
		return &pmapi.ConnError{Err: ctx.Err()}
	}
	time.Sleep(f.fetching)
	r.Reconnected, f.lostOnce = f.lostOnce, false
	r.Changes, f.changes = f.changes, 0
	r.Sets = nil
	f.fetched = slices.Clone(ids)
	for _, id := range ids {
		set := pdu.ValueSet{PMID: id, Err: pdu.ErrnoPMID}
		if f.down[id.Domain()] {
			set.Err = pdu.ErrnoNoAgent
		} else if m := f.find(id); m != nil {
			set.Err = m.err
			for i, v := range m.values {
				one := pmapi.NewValueSet(id, m.insts[i], v)
				set.Format, set.Values = one.Format, append(set.Values, one.Values...)
			}
		}
		r.Sets = append(r.Sets, set)
	}
	return nil
}
