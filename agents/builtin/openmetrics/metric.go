package openmetrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A metric is a metric of a source. Its source's mu guards it. What it is never changes, as clients
// keep descriptors: if a page from another endpoint declares something else, that is another metric.
type metric struct {
	sample string // its name in the page
	name   string // its full name for clients
	item   int

	typ           pdu.MetricType
	sem           pdu.Sem
	units         pdu.Units
	unitsErr      error // why it has no units, although the page has some
	oneLine, text string

	insts    *table  // its instances; nil if it has one value
	pcp      bool    // it has metadata of PCP, which may name instances
	first    []label // of its first sample
	optional []label // those of first that are optional

	cells []cell   // by instance; one if insts is nil
	raw   []string // the part of the last sample of each instance that names the series
	texts []string // values of a metric of type string
	named bool     // clients can find it
	old   *metric  // that it replaces, until then
}

// A cell is the value of an instance.
type cell struct {
	seq  uint64 // the number of the sample: see source.seq
	bits uint64
	bad  bool // the value is not one of the metric's type
}

// A block is what the comments before samples say about them.
type block struct {
	pcp       []string // a line PCP or PCP5: that word, the name, and the rest
	help, typ string
}

// newMetric returns the metric of a first sample. prefix is the name of its source.
func newMetric(prefix, sample string, b *block, meta []string, included []label) (*metric, error) {
	m := &metric{sample: sample, typ: pdu.MetricDouble, sem: pdu.SemInstant, first: included}
	m.setHelp(b.help)
	fields := b.pcp
	if meta != nil {
		fields = append([]string{"PCP5", sample}, meta...)
	}
	m.pcp = fields != nil
	if !m.pcp {
		m.name = prefix + "." + strings.ReplaceAll(sample, ":", ".")
		m.guess(b.typ)
		return m, nil
	}
	if len(fields) < 2 || fields[0] == "PCP5" && len(fields) < 5 {
		return nil, fmt.Errorf("the line %q is too short", strings.Join(fields, " "))
	}
	m.name = prefix + "." + fields[1]
	rest := fields[2:]
	if fields[0] == "PCP5" {
		if t, ok := types[rest[0]]; ok {
			m.typ = t
		}
		rest = rest[2:]
	}
	if len(rest) > 0 {
		m.sem = cmp.Or(semantics[rest[0]], pdu.SemInstant)
		if s := strings.Join(rest[1:], " "); s != "none" {
			m.units, m.unitsErr = parseUnits(s)
		}
	}
	return m, nil
}

// same reports whether clients can see no difference between m and o, which have the same item.
func (m *metric) same(o *metric) bool {
	return m.name == o.name && m.typ == o.typ && m.sem == o.sem && m.units == o.units && m.pcp == o.pcp &&
		m.oneLine == o.oneLine && m.text == o.text && (m.insts == nil) == (o.insts == nil)
}

var types = map[string]pdu.MetricType{
	"double": pdu.MetricDouble, "float": pdu.MetricFloat, "u64": pdu.MetricU64, "64": pdu.Metric64,
	"u32": pdu.MetricU32, "32": pdu.Metric32, "string": pdu.MetricString,
}

var semantics = map[string]pdu.Sem{"instant": pdu.SemInstant, "counter": pdu.SemCounter, "discrete": pdu.SemDiscrete}

// guess finds semantics and units of a metric without PCP's metadata, from its name and the type
// of the page.
func (m *metric) guess(typ string) {
	words := strings.Split(m.sample, "_")
	has := func(w string) bool { return slices.Contains(words, w) }
	bucket := typ == "histogram" && has("bucket")
	if typ == "counter" || has("total") || has("count") || has("sum") || bucket {
		m.sem = pdu.SemCounter
	}
	switch {
	case bucket, (typ == "histogram" || typ == "summary") && has("count"):
		m.units = pdu.Count
	case has("seconds"):
		m.units = pdu.Sec
	case has("microseconds"):
		m.units = pdu.Usec
	case has("bytes"):
		m.units = pdu.Byte
	}
}

func (m *metric) setHelp(help string) {
	help = strings.ReplaceAll(strings.ReplaceAll(help, `\\`, `\`), `\n`, "\n")
	m.oneLine, m.text, _ = strings.Cut(help, "\n")
}

// singular reports whether the metadata says that there is one value.
func singular(b *block, meta []string) bool {
	if meta != nil {
		return slices.Contains(meta, "PM_INDOM_NULL")
	}
	return slices.Contains(b.pcp, "PM_INDOM_NULL")
}

// instName returns the name of the instance with these labels, those that name it, and whether it
// follows the instance's number.
func (m *metric) instName(naming []label) (name string, prefix bool) {
	if m.pcp {
		for _, want := range []string{"instname", "instance"} {
			for _, l := range naming {
				if l.name == want {
					return l.value, false
				}
			}
		}
	}
	var b strings.Builder
	sorted := slices.SortedFunc(slices.Values(naming), func(a, b label) int { return strings.Compare(a.name, b.name) })
	for i, l := range sorted {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(l.name)
		b.WriteByte(':')
		b.WriteString(l.value)
	}
	return b.String(), true
}

// set sets the value of an instance. It returns how many more bytes the metric holds.
func (m *metric) set(i int, seq uint64, series string, value []byte) (more int) {
	if i >= len(m.cells) {
		m.cells = append(m.cells, make([]cell, i+1-len(m.cells))...)
		m.raw = append(m.raw, make([]string, i+1-len(m.raw))...)
	}
	c := cell{seq: seq}
	if m.typ == pdu.MetricString {
		m.texts = append(m.texts, make([]string, len(m.cells)-len(m.texts))...)
		if m.texts[i] != string(value) {
			more = len(value) - len(m.texts[i])
			m.texts[i] = string(value)
		}
	} else {
		var ok bool
		c.bits, ok = parseValue(m.typ, value)
		c.bad = !ok
	}
	more += len(series) - len(m.raw[i])
	m.cells[i], m.raw[i] = c, series
	return more
}

// forget forgets the value and the labels of an instance. It returns how many bytes that frees.
func (m *metric) forget(i int) (bytes int) {
	bytes = len(m.raw[i])
	m.cells[i], m.raw[i] = cell{}, ""
	if i < len(m.texts) {
		bytes += len(m.texts[i])
		m.texts[i] = ""
	}
	return bytes
}

// accepts reports whether a value is one of the metric's type.
func (m *metric) accepts(value []byte) bool {
	if m.typ == pdu.MetricString {
		return true
	}
	_, ok := parseValue(m.typ, value)
	return ok
}
