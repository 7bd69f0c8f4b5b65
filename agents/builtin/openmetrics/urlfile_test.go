package openmetrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func urlFileText(text string) string {
	f, err := parseURLFile(text)
	if err != nil {
		return "error: " + err.Error()
	}
	s := f.text
	for _, h := range f.headers {
		s += fmt.Sprintf(" %q", h)
	}
	for _, c := range f.filters {
		s += fmt.Sprintf(" %s label=%v %s", c.action, c.label, c.name)
	}
	for _, m := range f.metadata {
		s += fmt.Sprintf(" %s %q", m.name, m.fields)
	}
	for _, r := range f.redirects {
		s += fmt.Sprintf(" redirect %q", r)
	}
	for _, l := range f.ignored {
		s += fmt.Sprintf(" ignored %q", l)
	}
	return s
}

func TestURLFile(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"http://h:1/x\n", "http://h:1/x"},
		{"# comment\n\n  https://h/x  \r\n", "https://h/x"},
		{"file:///a/b", "file:///a/b"},
		{"http://h\nHEADER: A: b: c\nHEADER:X:y\nHEADER: Empty:\n", `http://h ["A" "b: c"] ["X" "y"] ["Empty" ""]`},
		{"http://h\nHEADER: nothing\nHEADER: a b: c\n", `http://h ignored "HEADER: nothing" ignored "HEADER: a b: c"`},
		{"http://h\nFILTER: INCLUDE METRIC a|b c\nFILTER: EXCLUDE LABEL :x:\nFILTER: OPTIONAL LABEL .*\n",
			"http://h INCLUDE label=false ^(?:a|b c) EXCLUDE label=true ^(?::x:) OPTIONAL label=true ^(?:.*)"},
		{"http://h\nFILTER: OPTIONAL METRIC a\nFILTER: x METRIC a\nFILTER: INCLUDE INST a\nFILTER: INCLUDE METRIC\nnonsense\n",
			`http://h ignored "FILTER: OPTIONAL METRIC a" ignored "FILTER: x METRIC a" ignored "FILTER: INCLUDE INST a" ignored "FILTER: INCLUDE METRIC" ignored "nonsense"`},
		{"http://h\nMETADATA: a.* u64 x counter count / sec\n", `http://h ^(?:a.*) ["u64" "x" "counter" "count" "/" "sec"]`},
		{"http://h\nMETADATA: a u64 x\n", `http://h ignored "METADATA: a u64 x"`},
		{"http://h\n# pmcd: redirect Other:9100\n#pmcd:redirect [::1]:080\n  # pmcd: redirect 127.0.0.1:1\n# pmcd is a daemon\n",
			`http://h redirect "other:9100" redirect "[::1]:80" redirect "127.0.0.1:1"`},
		{"http://h\n# pmcd: redirect h\n# pmcd: redirect h:0\n# pmcd: redirect :1\n# pmcd: redirect h:65536\n# pmcd: redirect h:1 i:2\n# pmcd: redirects h:1\n# pmcd:\n",
			`http://h ignored "# pmcd: redirect h" ignored "# pmcd: redirect h:0" ignored "# pmcd: redirect :1" ignored "# pmcd: redirect h:65536" ignored "# pmcd: redirect h:1 i:2" ignored "# pmcd: redirects h:1" ignored "# pmcd:"`},
		{"", "error: there is no URL"},
		{"# http://h\n", "error: there is no URL"},
		{"ftp://h/", "error: the first line is not a URL of http, https or file"},
		{"HEADER: a: b\nhttp://h", "error: the first line is not a URL of http, https or file"},
		{"http://h:port/\n", "error: the first line is not a URL"},
		{"http://h\nFILTER: INCLUDE METRIC (\n", "error: FILTER: error parsing regexp: missing closing ): `^(?:()`"},
		{"http://h\nMETADATA: a** u64 x counter none\n", "error: METADATA: error parsing regexp: invalid nested repetition operator: `**`"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if got := urlFileText(tt.text); got != tt.want {
				t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

func FuzzURLFile(f *testing.F) {
	f.Add("http://h\nHEADER: A: b\nFILTER: EXCLUDE METRIC a|b\nFILTER: OPTIONAL LABEL c\nMETADATA: a u64 x counter count\n")
	f.Add("# x\nfile:///x\nx\n")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseURLFile(text)
		if err != nil {
			return
		}
		u.action("name", true)
		u.metadataOf("name")
		if len(u.headers)+len(u.filters)+len(u.metadata)+len(u.ignored) > strings.Count(text, "\n") {
			t.Errorf("%q has more lines than that", text)
		}
	})
}

// The units are those of pmParseUnitsStr(3).
func TestParseUnits(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "0 0 0 0 0 0"},
		{"byte", "1 0 0 0 0 0"},
		{"Kbyte", "1 0 0 1 0 0"},
		{"kib", "1 0 0 1 0 0"},
		{"mebibytes", "1 0 0 2 0 0"},
		{"zb", "1 0 0 7 0 0"},
		{"yottabyte", "1 0 0 8 0 0"},
		{"counts", "0 0 1 0 0 0"},
		{"ms", "0 1 0 0 2 0"},
		{"nanosec", "0 1 0 0 0 0"},
		{"hr", "0 1 0 0 5 0"},
		{"byte / sec", "1 -1 0 0 3 0"},
		{"bytes/sec", "1 -1 0 0 3 0"},
		{"count x 10^3", "0 0 1 0 0 3"},
		{"count x 10^-3", "0 0 1 0 0 -3"},
		{"2 count", "0 0 1 0 0 0"},
		{"byte^2 / sec^3", "2 -3 0 0 3 0"},
		{"sec^-1", "0 -1 0 0 3 0"},
		{"/ sec", "0 -1 0 0 3 0"},
		{"1/s", "0 -1 0 0 3 0"},
		{"byte / byte", "0 0 0 0 0 0"},
		{"count / 7.5 nanosecond", "0 -1 1 0 0 0"},
		{"millisecond / second^2", "0 -1 0 0 3 0"},
		{"10 kilobytes / 2.5e2 count x 10^3", "1 0 -1 1 0 3"},
		{"count sec / byte", "-1 1 1 0 3 0"},
		{"msec", "error"},
		{"count x10^6", "error"},
		{"10^3", "error"},
		{"x 10^3", "error"},
		{"count x 1000", "error"},
		{"none", "error"},
		{"b", "error"},
		{"byte byte", "error"},
		{"count^9", "error"},
		{"byte * 2", "error"},
		{"byte^", "error"},
		{"byte^x", "error"},
		{"furlong", "error"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			u, err := parseUnits(tt.text)
			got := fmt.Sprint(u.DimSpace(), u.DimTime(), u.DimCount(), u.ScaleSpace(), u.ScaleTime(), u.ScaleCount())
			if err != nil {
				got = "error"
			}
			if got != tt.want {
				t.Errorf("%q: %s, %v; want %s", tt.text, got, err, tt.want)
			}
			if err != nil && u != pdu.Units(0) {
				t.Errorf("%q: units %v with an error", tt.text, u)
			}
		})
	}
}
