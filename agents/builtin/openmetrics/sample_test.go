package openmetrics

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func sampleText(line string) string {
	key, value, err := splitSample([]byte(line))
	if err != nil {
		return "error"
	}
	name, labels, err := parseSeries(string(key))
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("%s %q %s", name, labels, value)
}

func TestSample(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`a 1`, `a [] 1`},
		{"a\t1\t123", `a [] 1`},
		{`a 1 # {id="}"} 2`, `a [] 1`},
		{`a{} 1`, `a [] 1`},
		{`a {x="y"} 1`, `a [{"x" "y"}] 1`},
		{`a{x="y"}1`, `a [{"x" "y"}] 1`},
		{`a{ x = "y" , z="" , } 1`, `a [{"x" "y"} {"z" ""}] 1`},
		{`a{x="1",x="2"} 1`, `a [{"x" "2"}] 1`},
		{`a{x="}{,= \\\"\n\t"} 1`, `a [{"x" "}{,= \\\"\n\\t"}] 1`},
		{`a{x="Grüße"} +Inf`, `a [{"x" "Grüße"}] +Inf`},
		{`{x="y"} 1`, ` [{"x" "y"}] 1`}, // not a valid name
		{`a`, "error"},
		{`a `, "error"},
		{`a{`, "error"},
		{`a{x="y"`, "error"},
		{`a{x="y} 1`, "error"},
		{`a{x="y\`, "error"},
		{`a{x} 1`, "error"},
		{`a{x=y} 1`, "error"},
		{`a{x="y"z="w"} 1`, "error"},
		{`a{x y="z"} 1`, "error"},
		{`a{="z"} 1`, "error"},
		{`a{x="y"}`, "error"},
		{`a{x="y"}}`, `a [{"x" "y"}] }`},
		{`a{x="y",,z="w"} 1`, `a [{"x" "y"} {",z" "w"}] 1`}, // as PCP's agent
		// A metric whose name is in quotes has no valid name.
		{`{"a.b",x="y"} 1`, ` [{"\"a.b\",x" "y"}] 1`},
		{`{"a.b"} 1`, "error"},
		// Names of labels keep their quotes.
		{`a{"http.scheme"="x",y="2"} 7`, `a [{"\"http.scheme\"" "x"} {"y" "2"}] 7`},
		{`a{ "b.c" = "x" , } 7`, `a [{"\"b.c\"" "x"}] 7`},
		{`a{"b,c}{d"="x"} 7`, `a [{"\"b,c}{d\"" "x"}] 7`},
		{`a{"b\"c\\"="x"} 7`, `a [{"\"b\\\"c\\\\\"" "x"}] 7`},
		{`a{"b c"="x"} 7`, `a [{"\"b c\"" "x"}] 7`},
		{`a{"b=c"="x"} 7`, `a [{"\"b=c\"" "x"}] 7`},
		{`a{"Größe 日"="x"} 7 # {"t"="}"} 1`, `a [{"\"Größe 日\"" "x"}] 7`},
		{`a{"b"c="x"} 7`, `a [{"\"b\"c" "x"}] 7`},
		{`a{b"c="x"} 7`, `a [{"b\"c" "x"}] 7`},
		{`a{b}c="x"} 7`, `a [{"b}c" "x"}] 7`},
		{`a{""="x"} 7`, `a [{"\"\"" "x"}] 7`},
		{`a{"b="x"} 7`, "error"},
		{`a{"b\`, "error"},
		{`a{"b"`, "error"},
		{`a{"b"="`, "error"},
		{`a{"b"="\`, "error"},
		{`a{"`, "error"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			if got := sampleText(tt.line); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.line, got, tt.want)
			}
		})
	}
	if got := sampleText("a{" + strings.Repeat(`x="",`, maxLabels) + "} 1"); got == "error" {
		t.Error("repeated labels count")
	}
	many := "a{"
	for i := range maxLabels + 1 {
		many += fmt.Sprintf(`x%d="",`, i)
	}
	if got := sampleText(many + "} 1"); got != "error" {
		t.Errorf("too many labels: %.100s", got)
	}
}

func TestParseValue(t *testing.T) {
	for _, tt := range []struct {
		typ  pdu.MetricType
		text string
		want string
	}{
		{pdu.MetricU64, "18446744073709551615", "ffffffffffffffff true"},
		{pdu.MetricU64, "+7", "7 true"},
		{pdu.MetricU64, "18446744073709551616", "false"},
		{pdu.MetricU64, "-1", "false"},
		{pdu.MetricU64, "1.0", "false"},
		{pdu.MetricU32, "4294967295", "ffffffff true"},
		{pdu.MetricU32, "4294967296", "false"},
		{pdu.Metric32, "-2147483648", "ffffffff80000000 true"},
		{pdu.Metric32, "2147483648", "false"},
		{pdu.Metric64, "-9223372036854775808", "8000000000000000 true"},
		{pdu.MetricDouble, "1.5", "3ff8000000000000 true"},
		{pdu.MetricDouble, "1e400", "7ff0000000000000 true"},
		{pdu.MetricDouble, "-Inf", "fff0000000000000 true"},
		{pdu.MetricDouble, "0x10", "false"},
		{pdu.MetricDouble, "1_000", "408f400000000000 true"},
		{pdu.MetricDouble, "1_0.2_5e0_1", "4059a00000000000 true"},
		{pdu.MetricDouble, "1__0", "false"},
		{pdu.MetricDouble, "_10", "false"},
		{pdu.MetricDouble, "10_", "false"},
		{pdu.MetricDouble, "1_.5", "false"},
		{pdu.MetricDouble, "0x1_0", "false"},
		{pdu.MetricDouble, "-nan", "fff8000000000001 true"},
		{pdu.MetricDouble, "+NaN", "7ff8000000000001 true"},
		{pdu.MetricDouble, "--nan", "false"},
		{pdu.MetricDouble, "-infinity", "fff0000000000000 true"},
		{pdu.MetricU64, "1_000", "3e8 true"},
		{pdu.MetricU64, "1_", "false"},
		{pdu.Metric32, "-1_0", "fffffffffffffff6 true"},
		{pdu.MetricDouble, "one", "false"},
	} {
		t.Run(fmt.Sprint(tt.typ, tt.text), func(t *testing.T) {
			bits, ok := parseValue(tt.typ, []byte(tt.text))
			got := "false"
			if ok {
				got = fmt.Sprintf("%x true", bits)
			}
			if got != tt.want {
				t.Errorf("%v %q: %s, want %s", tt.typ, tt.text, got, tt.want)
			}
		})
	}
	value, series := []byte("123.25"), "x"
	m := &metric{typ: pdu.MetricDouble, cells: make([]cell, 1), raw: make([]string, 1)}
	if n := testing.AllocsPerRun(100, func() { m.set(0, 1, series, value) }); n > 0 {
		t.Errorf("a value costs %v allocations", n)
	}
}

// pageSamples adds pages of the tests, and what is special in them.
func pageSamples(f *testing.F) {
	paths, err := filepath.Glob("testdata/pages/*.txt")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "")
	}
	f.Add([]byte("a{x=\"\xff\"} 1\nb\x00c 2\n# PCP5\n# PCP\nd 1\n"), "iso-8859-1")
	f.Add([]byte("\xff\xfea\x00 \x001\x00\r\x00\n\x00b\x00{\x00\"\x00"), "utf-16")
	f.Add([]byte("\ufeffa{\"b c\"=\"x\"} -nan\rb{ 1\r\nc 1_0\n"), "utf-8")
}

// FuzzPage reads a page twice: it has the same values and numbers both times, and after a restart.
func FuzzPage(f *testing.F) {
	pageSamples(f)
	file, err := parseURLFile("http://localhost/\nFILTER: OPTIONAL LABEL o\nFILTER: EXCLUDE LABEL e\nFILTER: EXCLUDE METRIC e\nMETADATA: m u64 x counter byte\n")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	f.Setenv("PCP_VAR_DIR", dir)
	f.Fuzz(func(t *testing.T, b []byte, charset string) {
		if err := os.RemoveAll(dir + "/config"); err != nil {
			t.Fatal(err)
		}
		read := func(s *source) string {
			p := &page{src: s, file: file}
			s.base = s.seq
			err := p.read(decode(bytes.NewReader(b), "text/plain; charset="+charset))
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				s.drop()
				return err.Error()
			}
			s.commit()
			if s.saveErr != nil {
				t.Fatal(s.saveErr)
			}
			s.valid = true
			return dumpSource(s)
		}
		a := newAgent(t, Options{Dir: dir})
		s := newSource(a, "s", "s.url", false, 1)
		s.file = file
		first := read(s)
		if second := read(s); second != first {
			t.Errorf("page %q: first\n%s\nthen\n%s", b, first, second)
		}
		again := newSource(a, "s", "s.url", false, 1)
		again.file = file
		if third := read(again); third != first {
			t.Errorf("page %q: first\n%s\nafter a restart\n%s", b, first, third)
		}
		for _, m := range s.byItem {
			if m != nil {
				if _, err := s.itemLabels(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// dumpSource is what clients may know of a source, as text.
func dumpSource(s *source) string {
	var out strings.Builder
	for _, m := range s.byItem {
		if m == nil {
			continue
		}
		fmt.Fprintln(&out, m.item, m.name, m.typ, m.sem, m.units, m.oneLine, m.insts != nil)
		for i, c := range m.cells {
			if c.seq == 0 {
				continue
			}
			name := ""
			if m.insts != nil {
				name = m.insts.instName(i)
			}
			fmt.Fprintf(&out, "\t%d %q %x %v %v\n", i, name, c.bits, c.bad, s.current(c))
		}
	}
	return out.String()
}
