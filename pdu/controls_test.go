package pdu

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var controlCases = []struct{ in, want string }{
	{"", ""},
	{"plain text", "plain text"},
	{"Gr\u00fc\u00dfe \u65e5\u672c \U0001f600 \u00a0\u202e\ufffd", "Gr\u00fc\u00dfe \u65e5\u672c \U0001f600 \u00a0\u202e\ufffd"},
	{"\x1b]0;title\a\x1b[2J", `\x1b]0;title\a\x1b[2J`},
	{"a\x00b\rc\x7f", `a\x00b\rc\x7f`},
	{"a\tb\nc", "a\tb\nc"},
	{"a\u0080b\u009bc\u0085", `a\u0080b\u009bc\u0085`},
	{"\x9b2J\x80", `\x9b2J\x80`},                            // of a terminal that is not one of UTF-8
	{"M\xfcller \xe9\x1b \xff", "M\xfcller \xe9\\x1b \xff"}, // a name in Latin-1
	{"\u65e5\x1b", "\u65e5" + `\x1b`},
	{"\xe6\x97", `` + "\xe6" + `\x97`}, // the beginning of a character
	{"\xc2", "\xc2"},
}

// Control characters are escaped, and nothing else changes.
func TestEscapeControls(t *testing.T) {
	for _, tt := range controlCases {
		if got := EscapeControls(tt.in, "\t\n"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
		var w ResultWriter
		for name, value := range map[string]func(){
			"String": func() { w.String(NoInst, tt.in) },
			"Block":  func() { w.Block(NoInst, MetricString, []byte(tt.in+"\x00")) },
		} {
			w.Reset(nil, 0)
			w.Begin(1)
			value()
			b, err := w.Finish()
			var r Result
			if err == nil {
				_, err = ParseInto(b, &r)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Sets[0].Values[0].Block); got != tt.want+"\x00" {
				t.Errorf("%s of %q: %q, want %q", name, tt.in, got, tt.want)
			}
		}
		params := []EventParam{{Type: MetricString, Value: []byte(tt.in)}, {Type: MetricAggregate, Value: []byte(tt.in)}}
		b, err := AppendEvents(nil, MetricEvent, []EventRecord{{Params: params}})
		if err != nil {
			t.Fatal(err)
		}
		recs, err := ParseEvents(MetricEvent, b)
		if err != nil {
			t.Fatal(err)
		}
		if got := recs[0].Params; string(got[0].Value) != tt.want || string(got[1].Value) != tt.in {
			t.Errorf("event record with %q: %q", tt.in, got)
		}
	}
	if got, want := EscapeControls("a\tb\nc", ""), `a\tb\nc`; got != want {
		t.Errorf("without tabs and newlines: %q, want %q", got, want)
	}
	if n := testing.AllocsPerRun(10, func() { EscapeControls("Gr\u00fc\u00dfe\tand text", "\t") }); n > 0 {
		t.Errorf("a string without control characters costs %v allocations", n)
	}
}

// Labels are the same JSON without control characters.
func TestLabelsWithControls(t *testing.T) {
	s, err := NewLabelSet(NoInst, 0, NamedLabel{Name: "a", Value: "\"x\\u001b \x7f\u009b\x9b \u00e9\xff\""}, NamedLabel{Name: "b", Value: "\"\x7f\""})
	if want := "{\"a\":\"x\\u001b \\u007f\\u009b\\u009b \u00e9\xff\",\"b\":\"\\u007f\"}"; err != nil || string(s.JSON) != want {
		t.Errorf("%q, %v; want %q", s.JSON, err, want)
	}
	if got := s.Value(s.Labels[1]); string(got) != `"\u007f"` {
		t.Errorf("the second label: %q", got)
	}
}

func FuzzEscapeControls(f *testing.F) {
	for _, tt := range controlCases {
		f.Add(tt.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := EscapeControls(s, "")
		if strings.ContainsFunc(got, unicode.IsControl) || EscapeControls(got, "") != got {
			t.Errorf("%q: %q", s, got)
		}
		if utf8.ValidString(s) != utf8.ValidString(got) && !utf8.ValidString(got) || !strings.ContainsFunc(s, unicode.IsControl) && utf8.ValidString(s) && got != s {
			t.Errorf("%q: %q", s, got)
		}
		if len(got) > 6*len(s) {
			t.Errorf("%q grows to %q", s, got)
		}
	})
}
