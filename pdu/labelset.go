package pdu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A NamedLabel is a label for NewLabelSet.
type NamedLabel struct {
	Name  string
	Value string    // JSON, such as 12 or "x" with its quotes
	Flags LabelKind // beyond those of the set: LabelOptional
}

// NewLabelSet returns a set of labels. As libpcp does, it sorts them by name. Each gets
// the given flags, which are normally the kind of the request. Control characters in values are escaped:
// see [EscapeControls]. NewLabelSet fails if a name or a value is invalid, or if the labels exceed the
// limits of a set.
func NewLabelSet(inst int32, flags LabelKind, labels ...NamedLabel) (LabelSet, error) {
	s := LabelSet{Inst: inst}
	if len(labels) == 0 {
		return s, nil
	}
	if len(labels) > maxLabels {
		return LabelSet{}, fmt.Errorf("%d labels: %w", len(labels), ErrCount)
	}
	sorted := slices.SortedStableFunc(slices.Values(labels), func(a, b NamedLabel) int {
		return strings.Compare(a.Name, b.Name)
	})
	var b bytes.Buffer
	for i, l := range sorted {
		if !validLabelName(l.Name) || i > 0 && l.Name == sorted[i-1].Name {
			return LabelSet{}, fmt.Errorf("label name %q: %w", l.Name, ErrField)
		}
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		name := b.Len()
		b.WriteString(l.Name)
		b.WriteString(`":`)
		value := b.Len()
		if err := json.Compact(&b, []byte(escapeJSON(l.Value))); err != nil {
			return LabelSet{}, fmt.Errorf("value of label %s: %w", l.Name, err)
		}
		if b.Len() >= maxLabelJSON {
			return LabelSet{}, fmt.Errorf("labels: %w", ErrTooLong)
		}
		s.Labels = append(s.Labels, Label{
			Name: uint16(name), NameLen: uint8(len(l.Name)), Flags: uint8(flags | l.Flags),
			Value: uint16(value), ValueLen: uint16(b.Len() - value),
		})
	}
	b.WriteByte('}')
	s.JSON = b.Bytes()
	return s, nil
}

// validLabelName reports whether s consists of letters, digits, underscores and dots
// and is not too long. In pmLookupLabels(3) the first must be a letter, in PCP 7 not.
func validLabelName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 255
}
