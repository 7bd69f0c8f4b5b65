package labels

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

// Labels that no file was read for are looked at, too.
func TestBadLabelSet(t *testing.T) {
	log, logs := logtest.NewLog()
	h := New(Config{Limiter: diag.NewLogLimiter(log)})
	set, err := h.set([]label{
		{pdu.NamedLabel{Name: "a", Value: "1"}, ""},
		{pdu.NamedLabel{Name: "b c", Value: "1"}, ""},
		{pdu.NamedLabel{Name: "d", Value: "{"}, "file"},
	})
	if err != nil || string(set.JSON) != `{"a":1}` {
		t.Errorf("got %s, %v", set.JSON, err)
	}
	for _, want := range []string{`pmcd: label name "b c"`, "file: value of label d"} {
		if len(logs.With(want)) == 0 {
			t.Errorf("the log has no %q", want)
		}
	}
	var many []label
	for i := range 300 {
		many = append(many, label{pdu.NamedLabel{Name: "l" + string(rune('A'+i%26)) + strings.Repeat("x", i/26), Value: "1"}, "file"})
	}
	if set, err = h.set(many); err != nil || len(set.Labels) != 254 {
		t.Errorf("of 300: %d, %v", len(set.Labels), err)
	}
	long := `"` + strings.Repeat("x", 65000) + `"`
	set, err = h.set([]label{
		{pdu.NamedLabel{Name: "long", Value: long}, "file"},
		{pdu.NamedLabel{Name: "ok", Value: `"` + strings.Repeat("x", 1000) + `"`}, ""},
	})
	if err != nil || len(set.Labels) != 1 || !strings.HasPrefix(string(set.JSON), `{"ok":`) || len(logs.With("file: no room for label long; it is left out")) != 1 {
		t.Errorf("with a long one: %.100s, %v", set.JSON, err)
	}
}

// What package pmcdconf takes for the name of a label can be in a set.
func TestLabelNamesOfFiles(t *testing.T) {
	n := 0
	for c := range 128 {
		for _, name := range []string{string(rune(c)), string(rune(c)) + "a", "a" + string(rune(c))} {
			text, err := json.Marshal(map[string]int{name: 1})
			if err != nil {
				t.Fatal(err)
			}
			list, _ := hostlabels.Parse(text)
			for _, l := range list {
				n++
				if _, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, pdu.NamedLabel{Name: l.Name, Value: string(l.Value)}); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
		}
	}
	if want := 3 * (2*26 + 10 + 2); n != want {
		t.Errorf("%d names, want %d", n, want)
	}
}
