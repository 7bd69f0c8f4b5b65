package mmv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// Labels maps names of metric labels to values (pmLookupLabels(3)). A name is a letter
// followed by letters, digits and underscores. A value is a string, a number, a bool, nil,
// a slice of these, or an [OptionalLabel] with one of these. A label has at most 243 bytes as
// JSON, such as {"name":"value"}, and a file has at most 255 labels.
type Labels map[string]any

// An OptionalLabel is the value of a label that describes a metric but does not identify it
// (PM_LABEL_OPTIONAL).
type OptionalLabel struct{ Value any }

// A label is a label as it is in a file.
type label struct {
	flags   uint32 // LabelOptional or 0
	payload []byte
}

// encode returns the labels in the order of their names.
func (l Labels) encode() ([]label, error) {
	var list []label
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if !isWord(name) {
			return nil, fmt.Errorf("label %q: a name is a letter followed by letters, digits and underscores", name)
		}
		var out label
		value := l[name]
		if o, ok := value.(OptionalLabel); ok {
			out.flags, value = mmvformat.LabelOptional, o.Value
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return nil, fmt.Errorf("label %s: %w", name, err)
		}
		text := bytes.TrimSpace(b.Bytes())
		if text[0] == '{' {
			return nil, fmt.Errorf("label %s: a label cannot have a value of type %T", name, value)
		}
		out.payload = fmt.Appendf(nil, `{"%s":%s}`, name, text)
		if n := len(out.payload); n >= mmvformat.LabelPayloadSize {
			return nil, fmt.Errorf("label %s: %d bytes, but it has at most %d", name, n, mmvformat.LabelPayloadSize-1)
		}
		list = append(list, out)
	}
	return list, nil
}
