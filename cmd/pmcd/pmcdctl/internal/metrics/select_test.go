package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestParse(t *testing.T) {
	for arg, want := range map[string]*Selection{
		"a.b":           {"a.b", ""},
		"a.b[c d]":      {"a.b", "c d"},
		`a["c d"]`:      {"a", "c d"},
		"a[x[1]]":       {"a", "x[1]"},
		"":              {"", ""},
		"a[":            nil,
		"a[]":           nil,
		"a[b":           nil,
		"[b]":           nil,
		"a[b]c":         nil,
		"a[/dev/[x]/y]": {"a", "/dev/[x]/y"},
	} {
		got, err := Parse(arg)
		if (err == nil) != (want != nil) || want != nil && got != *want {
			t.Errorf("%q: %+v, %v", arg, got, err)
		}
	}
}

// What is parsed can be written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add("kernel.all.load[1 minute]")
	f.Add("a[[]]")
	f.Fuzz(func(t *testing.T, arg string) {
		s, err := Parse(arg)
		if err != nil || strings.ContainsAny(arg, `"`) {
			return
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Errorf("%q: %+v, again %+v, %v", arg, s, again, err)
		}
	})
}

func TestNearest(t *testing.T) {
	children := []pdu.Child{{Name: "load"}, {Name: "loadavg"}, {Name: "cpu"}, {Name: "uptime"}, {Name: strings.Repeat("load", 100)}}
	for part, want := range map[string][]string{
		"lod": {"k.load"}, "cpi": {"k.cpu"}, "up": {"k.uptime"}, "uptmie": {"k.uptime"}, "zzz": nil, "": {"k.cpu", "k.load", "k.loadavg", "k." + strings.Repeat("load", 100), "k.uptime"},
	} {
		got := nearest("k", part, children)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", part, got, want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "acb", 2}, {"kitten", "sitting", 3}, {"", "abc", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
