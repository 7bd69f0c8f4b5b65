package pmapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// LabelKind is the kind of object that a label belongs to (PM_LABEL_*, pmapi.h).
type LabelKind int32

// Kinds of labels, and what [Client.LabelsAt] identifies an object by.
const (
	LabelContext   LabelKind = LabelKind(pdu.LabelContext)   // the host, by nothing
	LabelDomain    LabelKind = LabelKind(pdu.LabelDomain)    // an agent, by its domain number
	LabelInDom     LabelKind = LabelKind(pdu.LabelInDom)     // an instance domain, by its InDom
	LabelCluster   LabelKind = LabelKind(pdu.LabelCluster)   // a cluster, by the PMID of a metric in it
	LabelItem      LabelKind = LabelKind(pdu.LabelItem)      // a metric, by its PMID
	LabelInstances LabelKind = LabelKind(pdu.LabelInstances) // the instances of an instance domain, by its InDom
)

// String returns the name of k, such as "domain".
func (k LabelKind) String() string { return pdu.LabelKind(k).String() }

// A Label is a name and a value that pmcd attaches to the host, an agent, an instance
// domain, metrics or an instance (pmLookupLabels(3)).
type Label struct {
	Name     string // with dots if the value is inside an object
	Value    string // JSON: a string is in quotes
	Kind     LabelKind
	Optional bool // not part of what identifies a metric
}

// InstLabels are the labels of one instance or, with [pdu.NoInst], of what else was asked
// for.
type InstLabels struct {
	Inst   int32
	Labels []Label
}

// LabelsAt returns the labels of one kind, as the agent has them. The kind says what ident is;
// for LabelContext it has no meaning. There is one element for each instance, or one, or none if
// there are no labels. Without labels there is no error; a pmcd before PCP 4 fails with
// pdu.ErrnoNoLabels.
func (c *Client) LabelsAt(ctx context.Context, kind LabelKind, ident uint32) ([]InstLabels, error) {
	if kind == LabelContext {
		ident = uint32(pdu.NoPMID)
	}
	var sets []InstLabels
	err := c.do(ctx, func(n *conn) error {
		if n.features&pdu.FeatureLabels == 0 {
			return pdu.ErrnoNoLabels
		}
		var reply pdu.Labels
		if err := n.call(&pdu.LabelReq{Ident: ident, Kind: pdu.LabelKind(kind)}, &reply); err != nil {
			return err
		}
		if reply.Ident != ident || reply.Kind != pdu.LabelKind(kind) {
			return n.fail(badReply("other labels"))
		}
		sets = nil
		for i := range reply.Sets {
			if s := &reply.Sets[i]; s.Err == 0 {
				sets = append(sets, InstLabels{s.Inst, labelsOf(s)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("labels of kind %v: %w", kind, err)
	}
	return sets, nil
}

// labelsOf returns the labels of s, which aliases a PDU.
func labelsOf(s *pdu.LabelSet) []Label {
	labels := make([]Label, len(s.Labels))
	for i, l := range s.Labels {
		flags := pdu.LabelKind(l.Flags)
		labels[i] = Label{
			Name: s.Name(l), Value: string(s.Value(l)),
			Kind: LabelKind(flags &^ (pdu.LabelCompound | pdu.LabelOptional)), Optional: flags&pdu.LabelOptional != 0,
		}
		if l.ValueLen == 0 {
			labels[i].Value = "null"
		}
	}
	return labels
}

// Labels returns the labels of a metric and, if it has instances with labels of their own,
// of these instances. The first element is that of the metric; its Inst is [pdu.NoInst].
//
// Each element has the labels of all levels merged (see [MergeLabels]): of the host, the
// domain, the instance domain, the cluster, the item and the instance.
func (c *Client) Labels(ctx context.Context, id pdu.PMID) ([]InstLabels, error) {
	d, err := c.Desc(ctx, id)
	if err != nil {
		return nil, err
	}
	levels := []struct {
		kind  LabelKind
		ident uint32
	}{
		{LabelContext, 0},
		{LabelDomain, uint32(id.Domain())},
		{LabelInDom, uint32(d.InDom)},
		{LabelCluster, uint32(pdu.NewPMID(id.Domain(), id.Cluster(), 0))},
		{LabelItem, uint32(id)},
	}
	var all [][]Label
	for _, l := range levels {
		if l.kind == LabelInDom && d.InDom == pdu.NoInDom {
			continue
		}
		sets, err := c.LabelsAt(ctx, l.kind, l.ident)
		if err != nil {
			return nil, err
		}
		if len(sets) > 0 {
			all = append(all, sets[0].Labels)
		}
	}
	merged := []InstLabels{{pdu.NoInst, MergeLabels(all...)}}
	if d.InDom == pdu.NoInDom {
		return merged, nil
	}
	insts, err := c.LabelsAt(ctx, LabelInstances, uint32(d.InDom))
	if err != nil {
		return nil, err
	}
	for _, s := range insts {
		merged = append(merged, InstLabels{s.Inst, MergeLabels(merged[0].Labels, s.Labels)})
	}
	return merged, nil
}

// MergeLabels returns the labels of several levels, sorted by name. Of labels with the same
// name, that of the last level counts (pmMergeLabelSets(3)).
func MergeLabels(levels ...[]Label) []Label {
	byName := make(map[string]Label)
	for _, labels := range levels {
		for _, l := range labels {
			byName[l.Name] = l
		}
	}
	merged := make([]Label, 0, len(byName))
	for _, l := range byName {
		merged = append(merged, l)
	}
	slices.SortFunc(merged, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// LabelsJSON returns labels as a JSON object, such as {"agent":"linux","hostname":"a"}, in
// their order.
func LabelsJSON(labels []Label) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + l.Name + `":` + l.Value)
	}
	b.WriteByte('}')
	return b.String()
}
