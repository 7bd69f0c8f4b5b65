package pmda_test

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

const helpFile = `# a comment
text before the first entry does not count
@ a.b.c one line,	with a tab 
first
# not this

third

@ 60.1.2 by number
@SIMPLE.0 of an instance domain
only
@ SIMPLE.3.4	x
@ lonely
`

func TestParseHelp(t *testing.T) {
	got, err := pmda.ParseHelp(helpFile)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]pmda.HelpText{
		"a.b.c":  {OneLine: "one line,	with a tab", Text: "first\n\nthird"},
		"1.2":    {OneLine: "by number"},
		"0":      {OneLine: "of an instance domain", Text: "only"},
		"3.4":    {OneLine: "x"},
		"lonely": {},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lines may end with CR and LF. What comments divide is joined.
func TestParseHelpLines(t *testing.T) {
	got, err := pmda.ParseHelp("@ a A\r\none\r\n#\r\ntwo\r\n\r\n#\r\n#\r\nthree\n\n@ b B\nlast\r")
	want := map[string]pmda.HelpText{"a": {OneLine: "A", Text: "one\ntwo\n\nthree"}, "b": {OneLine: "B", Text: "last"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A text without comments is a part of the file, and so takes no memory.
func TestParseHelpCopiesNothing(t *testing.T) {
	file := "# texts\n@ a A\n" + strings.Repeat("many lines\n", 1000) + "@ b B\nlast"
	help, err := pmda.ParseHelp(file)
	if err != nil || len(help) != 2 {
		t.Fatal(help, err)
	}
	for name, h := range help {
		for _, text := range []string{h.OneLine, h.Text} {
			i := strings.Index(file, text)
			if i < 0 || unsafe.StringData(text) != unsafe.StringData(file[i:]) {
				t.Errorf("%s: %.20q is copied", name, text)
			}
		}
	}
}

// The result of ParseHelp, written as a help file, is parsed to the same result.
func FuzzParseHelp(f *testing.F) {
	f.Add(helpFile)
	f.Add("@")
	f.Add("@ a\n\n\n")
	f.Add("@ 1.2.3 x\n@ 2.2.3 y\n")
	f.Fuzz(func(t *testing.T, text string) {
		help, _ := pmda.ParseHelp(text)
		var b strings.Builder
		for name, h := range help {
			if strings.ContainsAny(name, " \t\n") || strings.Contains(h.OneLine, "\n") {
				t.Fatalf("entry %q: %q", name, h)
			}
			if strings.Trim(name, "0123456789.") == "" {
				name = "0." + name // ParseHelp removes the domain
			}
			b.WriteString("@ " + name + " " + h.OneLine + "\n" + h.Text + "\n")
		}
		again, err := pmda.ParseHelp(b.String())
		if err != nil || len(again) != len(help) {
			t.Fatalf("%q: %v\nagain %q: %v", help, nil, again, err)
		}
		for name, h := range help {
			if again[name].OneLine != h.OneLine {
				t.Errorf("%s: %q, again %q", name, h, again[name])
			}
		}
	})
}

// Texts in the tables have precedence over those in the help file.
func TestText(t *testing.T) {
	dom := &pmda.InDom{Serial: 3, Insts: pmda.List{}}
	m0, m1, m2 := row(0, nil), row(1, nil), row(2, nil)
	m0.Name, m0.InDom, m0.OneLine = "a.b", dom, "own"
	m1.Name, m1.Text = "a.c", "own\ntext"
	tr, _ := start(t, pmda.Config{
		Metrics: []pmda.Metric{m0, m1, m2},
		Help:    "@ a.b from the file\nlong\n@ a.c other\n@ D.0.2 by number\n@ D.3 the domain\nand more\n",
	})
	metric, indom := uint32(id(0, 0)), uint32(pdu.NewInDom(domain, 3))
	one, long := pdu.TextOneLine, pdu.TextHelp
	for _, tt := range []struct {
		ident uint32
		kind  pdu.TextKind
		want  string
	}{
		{metric, pdu.TextPMID | one, "own"},
		{metric, pdu.TextPMID | long, "long"},
		{metric + 1, pdu.TextPMID | one, "other"},
		{metric + 1, pdu.TextPMID | long, "own\ntext"},
		{metric + 2, pdu.TextPMID | one, "by number"},
		{metric + 2, pdu.TextPMID | long, pdu.ErrnoText.Error()},
		{metric + 3, pdu.TextPMID | one, pdu.ErrnoText.Error()},
		{indom, pdu.TextInDom | one, "the domain"},
		{indom, pdu.TextInDom | long, "and more"},
		{indom + 1, pdu.TextInDom | one, pdu.ErrnoText.Error()},
	} {
		var reply pdu.Text
		got := ""
		if err := transporttest.Do(tr, agents.Origin{}, &pdu.TextReq{Ident: tt.ident, Kind: tt.kind}, &reply); err != nil {
			got = err.Error()
		} else {
			got = reply.Text
		}
		if got != tt.want {
			t.Errorf("%#x, kind %v: %q, want %q", tt.ident, tt.kind, got, tt.want)
		}
	}
}
