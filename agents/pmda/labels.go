package pmda

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Labels maps names of metric labels to values (pmLookupLabels(3)). A name is a
// letter followed by letters, digits and underscores. A value is a string, a
// number, a bool, nil, a slice of these, or an [OptionalLabel] with one of these.
type Labels map[string]any

// An OptionalLabel is the value of a label that describes a metric but does not
// identify it (PM_LABEL_OPTIONAL).
type OptionalLabel struct{ Value any }

// encode returns l as a label set for a PDU.
func (l Labels) encode(inst int32, kind pdu.LabelKind) (pdu.LabelSet, error) {
	if len(l) == 0 {
		return pdu.LabelSet{Inst: inst}, nil
	}
	named := make([]pdu.NamedLabel, 0, len(l))
	for name, v := range l {
		n := pdu.NamedLabel{Name: name}
		if note, ok := v.(OptionalLabel); ok {
			n.Flags, v = pdu.LabelOptional, note.Value
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return pdu.LabelSet{}, fmt.Errorf("label %s: %w", name, err)
		}
		if b.Bytes()[0] == '{' {
			return pdu.LabelSet{}, fmt.Errorf("label %s: a label cannot have a value of type %T", name, v)
		}
		n.Value = b.String()
		named = append(named, n)
	}
	return pdu.NewLabelSet(inst, kind, named...)
}

// Labels implements [agents.Labeler].
func (a *agent) Labels(ctx context.Context, o agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	if kind == pdu.LabelInstances {
		return a.instanceLabels(ctx, r, pdu.InDom(ident))
	}
	a.refreshNames(ctx)
	l := a.fixedLabels(kind, ident)
	if kind == pdu.LabelDomain && len(l) == 0 && a.conf.Name != "" {
		l = Labels{"agent": a.conf.Name}
	}
	if len(l) == 0 {
		return nil, nil
	}
	s, err := l.encode(pdu.NoInst, kind)
	if err != nil {
		return nil, a.errno("labels", "", err)
	}
	return []pdu.LabelSet{s}, nil
}

// fixedLabels returns the labels in the tables.
func (a *agent) fixedLabels(kind pdu.LabelKind, ident uint32) Labels {
	switch kind {
	case pdu.LabelDomain:
		return a.conf.Labels
	case pdu.LabelCluster:
		if c := a.cluster[pdu.PMID(ident).Cluster()]; c != nil {
			return c.Labels
		}
	case pdu.LabelItem:
		if m := a.metrics[pdu.PMID(ident)]; m != nil {
			return m.Labels
		}
	case pdu.LabelInDom:
		if d := a.indoms[pdu.InDom(ident)]; d != nil {
			return d.Labels
		}
	}
	return nil
}

// instanceLabels returns a label set for each instance. It is empty for an instance
// without labels.
func (a *agent) instanceLabels(ctx context.Context, r *Request, indom pdu.InDom) ([]pdu.LabelSet, error) {
	d := a.indoms[indom]
	if d == nil {
		return nil, nil
	}
	list, err := a.instances(ctx, d)
	if err != nil {
		return nil, err
	}
	sets := make([]pdu.LabelSet, len(list))
	var firstErr error
	for i, inst := range list {
		if err := r.Err(); err != nil {
			return nil, err
		}
		sets[i] = pdu.LabelSet{Inst: inst.ID}
		if d.InstLabels == nil {
			continue
		}
		l, err := d.InstLabels(ctx, r, inst)
		if err == nil {
			sets[i], err = l.encode(inst.ID, pdu.LabelInstances)
		}
		if err != nil {
			firstErr = cmp.Or(firstErr, fmt.Errorf("%s: %w", inst.Name, err))
			sets[i] = pdu.LabelSet{Inst: inst.ID}
		}
	}
	if firstErr != nil { // clients do not get it
		a.warn("labels of instances of "+indom.String(), firstErr)
	}
	return sets, nil
}
