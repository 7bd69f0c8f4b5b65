package daemon

import (
	"strings"
	"testing"
)

// A label that cannot be in a set is left out. Others stay.
func TestBadContextLabels(t *testing.T) {
	long := strings.Repeat("x", 64400) // 64511 bytes are for files
	for _, tt := range []struct {
		name string
		text string   // of a label file
		want []string // parts of the set
		not  string
		log  string
	}{
		{"an underscore or a digit leads", `{"_u": 1, "2d": 2}`, []string{`"2d":2`, `"_u":1`}, "", ""},
		{"one of a nested object", `{"n": {"_x": 3}}`, []string{`"n._x":3`}, "", ""},
		{"a bad name", `{"a-b": 1, "ok": 2}`, []string{`"ok":2`}, "a-b", `labels/a: bad label name "a-b"`},
		{"long", `{"long": "` + long + `", "ok": 2}`, []string{`"ok":2`, `"long":"xxx`, `"container":"c"`}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, nil, nil)
			c := r.dialContainer("c") // from now on pmcd reads the files only if it is asked
			r.write("labels/a", tt.text)
			got := c.contextLabels()
			for _, want := range append(tt.want, `"domainname":`, `"hostname":`, `"machineid`, `"userid":`) {
				if !strings.Contains(got, want) {
					t.Errorf("got %.300s, want %s", got, want)
				}
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("got %.300s, with %s", got, tt.not)
			}
			if tt.log != "" {
				r.awaitLogged(t, tt.log)
			}
		})
	}
}
