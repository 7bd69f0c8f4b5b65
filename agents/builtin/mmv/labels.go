package mmv

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

// namedLabel returns a label of a file for a PDU. flags are those of the file.
func namedLabel(l hostlabels.Label, flags uint32) pdu.NamedLabel {
	n := pdu.NamedLabel{Name: l.Name, Value: string(l.Value), Flags: pdu.LabelKind(flags) & pdu.LabelOptional}
	if strings.Contains(l.Name, ".") {
		n.Flags |= pdu.LabelCompound
	}
	return n
}

// Labels implements [agents.Labeler].
//
// C differs: it does not look for changes of the directory here.
func (a *agent) Labels(ctx context.Context, _ agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	if err := a.refresh(ctx, false); err != nil {
		return nil, err
	}
	if kind == pdu.LabelInstances {
		return a.instanceLabels(ctx, pdu.InDom(ident))
	}
	merged := make(map[string]pdu.NamedLabel)
	switch kind {
	case pdu.LabelDomain:
		merged["agent"] = pdu.NamedLabel{Name: "agent", Value: strconv.Quote(a.name)}
	case pdu.LabelInDom:
		n := pdu.InDom(ident).Serial()
		for _, f := range a.labeled[n] {
			merge(merged, f, func(l *label) bool {
				return l.Flags&mmvformat.LabelInDom != 0 && serial(f.cluster, l.Identity) == n
			})
		}
	case pdu.LabelCluster, pdu.LabelItem:
		id := pdu.PMID(ident)
		identity := uint32(id.Cluster())
		if kind == pdu.LabelItem {
			identity = uint32(id.Item())
		}
		for _, f := range a.clusters[id.Cluster()] {
			merge(merged, f, func(l *label) bool { return l.Flags&uint32(kind) != 0 && l.Identity == identity })
		}
	}
	if len(merged) == 0 {
		return nil, nil
	}
	s, err := newSet(pdu.NoInst, kind, merged)
	if err != nil {
		a.log.report(a.dir, "labels", err)
		return nil, pdu.ErrnoOf(err)
	}
	return []pdu.LabelSet{s}, nil
}

// tooMany is a number of labels that is too large for a set. No more are merged: files with
// one cluster can have millions.
const tooMany = 256

// merge adds the labels of f for which match returns true. Of several with a name, the last
// counts.
func merge(merged map[string]pdu.NamedLabel, f *file, match func(*label) bool) {
	for i := range f.labels {
		if l := &f.labels[i]; match(l) {
			l.mergeInto(merged)
		}
	}
}

func (l *label) mergeInto(merged map[string]pdu.NamedLabel) {
	for _, n := range l.named {
		if len(merged) >= tooMany {
			return
		}
		merged[n.Name] = n
	}
}

func newSet(inst int32, kind pdu.LabelKind, merged map[string]pdu.NamedLabel) (pdu.LabelSet, error) {
	return pdu.NewLabelSet(inst, kind, slices.Collect(maps.Values(merged))...)
}

// instanceLabels returns a label set for each instance, which may be empty.
func (a *agent) instanceLabels(ctx context.Context, id pdu.InDom) ([]pdu.LabelSet, error) {
	d := a.indoms[id.Serial()]
	if d == nil || id.Domain() != a.domain {
		return nil, nil
	}
	byInst := make(map[int32]map[string]pdu.NamedLabel)
	for _, f := range a.labeled[id.Serial()] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range f.labels {
			l := &f.labels[i]
			if l.Flags&mmvformat.LabelInstances == 0 || serial(f.cluster, l.Identity) != id.Serial() {
				continue
			}
			if byInst[l.Instance] == nil {
				byInst[l.Instance] = make(map[string]pdu.NamedLabel)
			}
			l.mergeInto(byInst[l.Instance])
		}
	}
	sets := make([]pdu.LabelSet, len(d.insts))
	var first error
	for i, inst := range d.insts {
		if err := a.ended(ctx, i+1); err != nil {
			return nil, err
		}
		sets[i] = pdu.LabelSet{Inst: inst.ID}
		if merged := byInst[inst.ID]; merged != nil {
			s, err := newSet(inst.ID, pdu.LabelInstances, merged)
			if err != nil {
				first = cmp.Or(first, fmt.Errorf("labels of %q: %w", inst.Name, err))
				continue
			}
			sets[i] = s
		}
	}
	if first != nil {
		a.log.report(a.dir, "labels", first)
	}
	return sets, nil
}
