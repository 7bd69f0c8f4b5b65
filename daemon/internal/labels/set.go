package labels

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// What a label set can hold (PM_MAXLABELS, PM_MAXLABELJSONLEN). Those of label files are
// fewer: see package hostlabels.
const (
	maxInSet   = 254
	maxSetJSON = 65534 // bytes
)

// A label is a context label and the file that it is from, "" for pmcd's own.
type label struct {
	pdu.NamedLabel
	file string
}

// Named returns a label whose value is a string or a number.
func Named[V string | uint32](name string, value V, flags pdu.LabelKind) pdu.NamedLabel {
	text, _ := json.Marshal(value) // which does not fail
	return pdu.NamedLabel{Name: name, Value: string(text), Flags: flags}
}

// set returns the set of labels. One that cannot be in a set, or for which
// there is no room, is left out, and the log says so.
func (h *Host) set(labels []label) (pdu.LabelSet, error) {
	list := make([]pdu.NamedLabel, len(labels))
	for i, l := range labels {
		list[i] = l.NamedLabel
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, list...)
	if err == nil {
		return set, nil
	}
	// Short ones first: if there is no room, the long one is left out.
	slices.SortFunc(labels, func(a, b label) int {
		return cmp.Or(cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Name, b.Name))
	})
	list = list[:0]
	room := maxSetJSON - len("{}")
	for _, l := range labels {
		one, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, l.NamedLabel)
		n := len(one.JSON) - len("{}") + len(",")
		if err == nil && (n > room || len(list) == maxInSet) {
			err = fmt.Errorf("no room for label %s", l.Name)
		}
		if err != nil {
			h.warn(fmt.Errorf("%s: %w; it is left out", cmp.Or(l.file, "pmcd"), err))
			continue
		}
		list, room = append(list, l.NamedLabel), room-n
	}
	return pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, list...)
}
