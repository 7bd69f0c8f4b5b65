package watch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// sampleOf returns a sample with the rate of a counter of bytes, a text that is not printable,
// an error, and n numbers.
func sampleOf(n int) *metrics.Sample {
	rate, _ := pmapi.RateUnits(pdu.Kbyte)
	s := &metrics.Sample{Time: time.Unix(0, 0), Metrics: []metrics.Metric{
		{Name: "bytes", Rate: true, Desc: pdu.Desc{Units: pdu.Kbyte}, Scale: rate,
			Values: []metrics.Value{{Instance: "sda", Is: pmapi.ValueOf(1536.0)}, {Instance: "sdb", Err: pdu.ErrnoAgain}}},
		{Name: "busy", Rate: true, Desc: pdu.Desc{Units: pdu.Msec}, Values: []metrics.Value{{Is: pmapi.ValueOf(0.5)}}},
		{Name: "text", Values: []metrics.Value{{Is: pmapi.ValueOf("a\x1b[2Jb")}}},
		{Name: "none"},
		{Name: "gone", Err: pdu.ErrnoNoAgent},
	}}
	for range n {
		s.Metrics = append(s.Metrics, metrics.Metric{Name: "n", Values: []metrics.Value{{Is: pmapi.ValueOf(uint32(7))}}})
	}
	return s
}

func TestLines(t *testing.T) {
	var out, errOut strings.Builder
	p := printerFor(Options{Out: &out, Err: &errOut})
	if err := errors.Join(p.sample(sampleOf(0)), p.failed(errors.New("lost\x1b"))); err != nil {
		t.Fatal(err)
	}
	stamp := time.Unix(0, 0).Local().Format(time.TimeOnly)
	want := stamp + "  bytes[sda]  1.5 MiB/s\n" + stamp + "  bytes[sdb]  -\n" + stamp + "  busy  50%\n" +
		stamp + "  text  \"a\\x1b[2Jb\"\n" + stamp + "  none  no values\n" + stamp + "  gone  no value: no agent for the domain\n"
	if out.String() != want || errOut.String() != "pmcdctl: lost\\x1b\n" {
		t.Errorf("got\n%s%s\nwant\n%s", &out, &errOut, want)
	}
}

// A terminal understands the control sequences that a screen writes.
type terminal struct {
	t             *testing.T
	width, height int
	lines         []string
	row, col      int
}

func (m *terminal) Write(b []byte) (int, error) {
	for s := string(b); s != ""; {
		if seq, ok := strings.CutPrefix(s, "\x1b["); ok {
			end := strings.IndexFunc(seq, func(r rune) bool { return r >= '@' })
			m.control(seq[:end], seq[end])
			s = seq[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		m.put(r)
	}
	return len(b), nil
}

func (m *terminal) put(r rune) {
	for len(m.lines) <= m.row {
		m.lines = append(m.lines, "")
	}
	switch r {
	case '\n':
		m.row, m.col = m.row+1, 0
		if m.row >= m.height {
			m.t.Error("the terminal scrolls")
		}
	case '\r':
		m.col = 0
	default:
		line := []rune(m.lines[m.row])
		if m.col < len(line) {
			line[m.col] = r
		} else {
			line = append(line, r)
		}
		m.lines[m.row] = string(line)
		if m.col++; m.col > m.width {
			m.t.Errorf("line %q is too long", m.lines[m.row])
		}
	}
}

func (m *terminal) control(args string, what byte) {
	switch what {
	case 'A':
		up := 0
		for _, c := range args {
			up = 10*up + int(c-'0')
		}
		m.row -= up
	case 'H':
		m.row, m.col = 0, 0
	case 'l', 'h':
		if args != "?7" {
			m.t.Errorf("unknown mode %q", args)
		}
	case 'K':
		if m.row < len(m.lines) {
			m.lines[m.row] = string([]rune(m.lines[m.row])[:m.col])
		}
	case 'J':
		if args == "2" {
			m.lines = nil
		} else if m.row < len(m.lines) {
			m.lines = m.lines[:m.row]
		}
	default:
		m.t.Errorf("unknown control sequence %q", args+string(what))
	}
}

func (m *terminal) text() string { return strings.Join(m.lines, "\n") }

func TestScreen(t *testing.T) {
	term := &terminal{t: t, width: 40, height: 12}
	p := printerFor(Options{Host: "web1", Interval: time.Second, Out: term, Size: func() (int, int) { return term.width, term.height }})
	head := "web1  " + time.Unix(0, 0).Local().Format(time.DateTime) + "  every 1s\n"
	values := `
bytes[sda]  1.5 MiB/s
bytes[sdb]          -
busy              50%
text        "a\x1b[2Jb"
none        no values
gone        no value: no agent for the d`
	for range 2 { // in the place of the first one
		if err := p.sample(sampleOf(0)); err != nil {
			t.Fatal(err)
		}
		if got := term.text(); got != head+values {
			t.Errorf("got\n%s\nwant\n%s", got, head+values)
		}
	}
	// The values stay below the error.
	if err := p.failed(errors.New("connection\nlost")); err != nil {
		t.Fatal(err)
	}
	if lines := term.lines; len(lines) != 9 || lines[1] != `connection\nlost; trying again` || strings.Join(lines[2:], "\n") != values {
		t.Errorf("%q", lines)
	}
	// More lines than there is room for.
	if err := p.sample(sampleOf(100)); err != nil {
		t.Fatal(err)
	}
	if lines := term.lines; len(lines) != 11 || lines[10] != "and 98 more: name fewer metrics, or an i" || lines[9] != "n                   7" {
		t.Errorf("%q", lines)
	}
	// Smaller, down to a terminal that has hardly any room. Each change clears it.
	for _, size := range [][2]int{{20, 6}, {5, 3}, {1, 2}} {
		term.width, term.height = size[0], size[1]
		if err := p.sample(sampleOf(3)); err != nil {
			t.Fatal(err)
		}
		if len(term.lines) >= term.height {
			t.Errorf("%d x %d: %q", size[0], size[1], term.lines)
		}
	}
	// What is drawn remains if the size changes.
	stamp := time.Unix(0, 0).Local()
	for width, head := range map[int]string{
		40: "web1  " + stamp.Format(time.DateTime) + "  every 1s", 30: "web1  " + stamp.Format(time.DateTime),
		20: stamp.Format(time.DateTime), 10: stamp.Format(time.TimeOnly),
	} {
		term.width, term.height = width, 20
		if err := p.resized(); err != nil {
			t.Fatal(err)
		}
		if got := term.lines; len(got) != 11 || got[0] != head || got[10] != "n                   7"[:min(width, 21)] {
			t.Errorf("%d wide: %q", width, got)
		}
	}
}

// JSON is one line a sample, whatever is in the texts.
func TestJSONLines(t *testing.T) {
	var out strings.Builder
	p := printerFor(Options{Out: &out, JSON: true, Size: func() (int, int) { return 80, 24 }})
	s := sampleOf(0)
	s.Metrics[2].Values[0].Value = "a\n<b>"
	for range 2 {
		if err := p.sample(s); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), `"a\n<b>"`) {
		t.Errorf("%s", &out)
	}
}

// Keys sort the values and scroll. They stay within the rows.
func TestKeys(t *testing.T) {
	term := &terminal{t: t, width: 70, height: 8}
	p := printerFor(Options{Out: term, Keys: make(chan Key), Size: func() (int, int) { return term.width, term.height }})
	s := new(metrics.Sample)
	for i, v := range []float64{3, 9, 1, 7} {
		s.Metrics = append(s.Metrics, metrics.Metric{Name: string(rune('a' + i)), Values: []metrics.Value{{Is: pmapi.ValueOf(v)}}})
	}
	s.Metrics = append(s.Metrics, metrics.Metric{Name: "e", Values: []metrics.Value{{Err: pdu.ErrnoAgain}}},
		metrics.Metric{Name: "f", Values: []metrics.Value{{Is: pmapi.ValueOf("text")}}})
	if err := p.sample(s); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key  Key
		want string // the first letters of the lines
	}{
		{0, "abcd"}, {Up, "abcd"}, {Down, "bcde"}, {PageDown, "cdef"}, {Down, "cdef"}, {PageUp, "abcd"},
		{Sort, "bdac"}, {PageDown, "acef"}, {Sort, "abcd"},
	} {
		if err := p.key(step.key); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, line := range term.lines[2 : len(term.lines)-1] {
			got += line[:1]
		}
		if got != step.want {
			t.Errorf("key %d: %q, want %q", step.key, got, step.want)
		}
	}
	if got, want := term.lines[len(term.lines)-1], "1 to 4 of 6: j, k, space and b scroll, s sorts, q quits"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseKeys(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []Key
	}{
		{"q", []Key{Quit}},
		{"xs \x1b[Aj", []Key{Sort, PageDown, Up, Down}},
		{"\x1b[6~\x1b[1;5Ck\x1bOB", []Key{PageDown, Up, Down}},
		{"\x1b", nil}, {"\x1b[", nil}, {"\x1b[5", nil}, {"\xff\x00", nil},
	} {
		if got := parseKeys(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.in, got, tt.want)
		}
	}
}
