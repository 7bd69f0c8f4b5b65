package hostlabels

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// FuzzParse checks that nothing panics, that values are JSON without white space, that
// names are valid, and that the result is the same after writing and reading it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", "1", "[]", `{"a":1}`, `{"a":{"b":[1, {"c":2}]}}`, `{"a b":1,"c":2}`, `{"x":{"a":1},"x":{"b":2}}`,
		`{"a":"\u00e9\"\\"}`, `{"a":1} x`, `{"a":`, "\xef\xbb\xbf{}", `{"":{"":1}}`, `{"a.b":{"c.":1}}`, `{"\ud800":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFile {
			return
		}
		list, err := parse(text, func(err error) { _ = err.Error() })
		if err != nil {
			return
		}
		again := []byte{'{'}
		for i, l := range list {
			if !validName(l.Name) || len(l.Name) > maxName || !json.Valid(l.Value) {
				t.Fatalf("%q: %v", text, l)
			}
			if i > 0 {
				again = append(again, ',')
			}
			again = fmt.Appendf(again, "%q:%s", l.Name, l.Value)
		}
		again = append(again, '}')
		list2, err := parse(again, func(err error) { t.Fatalf("%q: %v", again, err) })
		if err != nil || !reflect.DeepEqual(list, list2) {
			t.Fatalf("%q: got %v, %v, want %v", again, list2, err, list)
		}
	})
}
