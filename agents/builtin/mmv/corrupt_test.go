package mmv

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// A corruption changes a file. All else in the file must have its values.
type corruption struct {
	name string
	off  func(l mmvtest.Layout) int
	data any
	v1   bool              // for version 1, else for versions 2 and 3
	all  bool              // for all versions
	none bool              // the file has no metrics
	want map[string]string // values that are others; "gone": no such name
	log  string            // what the log must say; "" is nothing
}

const gone = "gone"

func at(f func(l mmvtest.Layout) int, n int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return f(l) + n }
}

func abs(n int) func(mmvtest.Layout) int { return func(mmvtest.Layout) int { return n } }

func metricField(i, field int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return l.Metrics + (i+1)*l.MetricSize - metricFieldsSize + field }
}

func toc(t mmvformat.SectionType, field int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return l.Toc[t] + field }
}

func values(i, field int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return l.Values + i*mmvformat.ValueSize + field }
}

// The values of the sample are in this order: eight of metrics without instances, then
// those of by.colour for blue, red and green, and those of by.text for green and red.
const (
	stringValue = 6
	blueValue   = 8
	greenText   = 11
)

func instances(i, field int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return l.Instances + i*l.InstanceSize + field }
}

func indoms(i, field int) func(l mmvtest.Layout) int {
	return func(l mmvtest.Layout) int { return l.InDoms + i*mmvformat.InDomSize + field }
}

const beyond = uint64(1) << 40

var corruptions = []corruption{
	{name: "magic", off: abs(0), data: "MMW\x00", all: true, none: true, log: "it is not an MMV file: it begins with something else"},
	{name: "version 0", off: abs(4), data: int32(0), all: true, none: true, log: "version 0 is not"},
	{name: "version 4", off: abs(4), data: int32(4), all: true, none: true, log: "version 4 is not"},
	{name: "in flux", off: abs(16), data: uint64(0), all: true, none: true},
	{name: "generations", off: abs(8), data: uint64(0), all: true, none: true},
	{name: "one section", off: abs(24), data: int32(1), all: true, none: true, log: "1 sections"},
	{name: "negative sections", off: abs(24), data: int32(-1), all: true, none: true, log: "-1 sections"},
	{name: "many sections", off: abs(24), data: int32(math.MaxInt32), all: true, none: true, log: "2147483647 sections"},
	{name: "cluster -1", off: abs(36), data: int32(-1), all: true, none: true, log: "cluster -1"},
	{name: "cluster 4096", off: abs(36), data: int32(4096), all: true, none: true, log: "cluster 4096"},
	{name: "dead process", off: abs(28), data: [2]int32{mmvformat.FlagProcess, -5}, all: true, none: true, log: "process -5 has ended"},
	{name: "unknown flags", off: abs(28), data: uint32(1 << 31), all: true},

	{name: "unknown section", off: toc(mmvformat.Metrics, 0), data: int32(9), all: true, none: true, log: "its type is 9"},
	{name: "metrics beyond", off: toc(mmvformat.Metrics, 8), data: beyond, all: true, none: true, log: "not in the file"},
	{name: "metrics wrap", off: toc(mmvformat.Metrics, 8), data: uint64(math.MaxUint64 - 100), all: true, none: true, log: "not in the file"},
	{name: "negative number of metrics", off: toc(mmvformat.Metrics, 4), data: int32(-1), all: true, none: true, log: "not in the file"},
	{name: "many metrics", off: toc(mmvformat.Metrics, 4), data: int32(math.MaxInt32), all: true, none: true, log: "not in the file"},
	{name: "values beyond", off: toc(mmvformat.Values, 8), data: beyond, all: true, want: noValues(), log: "not in the file"},
	{name: "values wrap", off: toc(mmvformat.Values, 8), data: uint64(math.MaxUint64 - 31), all: true, want: noValues(), log: "not in the file"},
	{name: "many values", off: toc(mmvformat.Values, 4), data: int32(math.MaxInt32), all: true, want: noValues(), log: "not in the file"},
	{name: "indoms beyond", off: toc(mmvformat.InDoms, 8), data: beyond, all: true, want: noInDoms(), log: "not in the file"},
	{name: "indoms wrap", off: toc(mmvformat.InDoms, 8), data: uint64(math.MaxUint64 - 31), all: true, want: noInDoms(), log: "not in the file"},
	{name: "instances section", off: toc(mmvformat.Instances, 8), data: beyond, all: true},
	{name: "strings section", off: toc(mmvformat.Strings, 8), data: beyond, all: true},

	{name: "instances of an indom beyond", off: indoms(0, 8), data: beyond, all: true,
		want: map[string]string{"by.colour": "", "by.text": ""}, log: "not in the file"},
	{name: "instances of an indom wrap", off: indoms(0, 8), data: uint64(math.MaxUint64 - 47), all: true,
		want: map[string]string{"by.colour": "", "by.text": ""}, log: "not in the file"},
	{name: "2^32 instances", off: indoms(0, 4), data: uint32(math.MaxUint32), all: true,
		want: map[string]string{"by.colour": "", "by.text": ""}, log: "not in the file"},
	{name: "serial", off: indoms(0, 0), data: uint32(1 << 22), all: true,
		want: map[string]string{"by.colour": "", "by.text": ""}, log: "serial 4194304"},
	{name: "instance -1", off: instances(1, 12), data: int32(-1), all: true,
		want: map[string]string{"by.colour": "3=30 2=20", "by.text": `3=""`}, log: "the id -1"},
	{name: "negative instance", off: instances(1, 12), data: int32(-7), all: true,
		want: map[string]string{"by.colour": "3=30 -7=10 2=20", "by.text": `3="" -7="g"`}},
	{name: "repeated instance", off: instances(2, 12), data: int32(3), all: true, // blue is another red
		want: map[string]string{"by.colour": "3=20 1=10"}},

	{name: "item", off: metricField(0, 0), data: uint32(1024), all: true, want: map[string]string{"int32": gone}, log: "item 1024 of"},
	{name: "large item", off: metricField(0, 0), data: uint32(math.MaxUint32), all: true, want: map[string]string{"int32": gone}, log: "item 4294967295 of"},
	{name: "repeated item", off: metricField(1, 0), data: uint32(1), all: true, want: map[string]string{"uint32": gone}, log: "another metric"},
	{name: "semantics", off: metricField(0, 8), data: int32(2), all: true, want: map[string]string{"int32": gone}, log: "semantics 2"},
	{name: "negative semantics", off: metricField(0, 8), data: int32(-1), all: true, want: map[string]string{"int32": gone}, log: "semantics -1"},
	{name: "unknown indom", off: metricField(0, 16), data: int32(77), all: true, want: map[string]string{"int32": ""}},
	{name: "negative indom", off: metricField(0, 16), data: int32(-2), all: true, want: map[string]string{"int32": gone}, log: "instance domain -2"},
	{name: "text beyond", off: metricField(0, 24), data: beyond, all: true, log: "no text"},

	{name: "value's metric", off: values(0, 16), data: beyond, all: true, want: map[string]string{"int32": pdu.ErrnoInst.Error()}, log: "no metric at"},
	{name: "value's metric is none", off: values(0, 16), data: uint64(0), all: true, want: map[string]string{"int32": pdu.ErrnoInst.Error()}, log: "no metric at"},
	{name: "value's instance", off: values(blueValue, 24), data: beyond, all: true, want: map[string]string{"by.colour": "3=30 1=10"}, log: "no instance at"},
	{name: "value's instance wraps", off: values(blueValue, 24), data: uint64(math.MaxUint64 - 3), all: true,
		want: map[string]string{"by.colour": "3=30 1=10"}, log: "no instance at"},
	{name: "string beyond", off: values(stringValue, 8), data: beyond, all: true, want: map[string]string{"string": pdu.ErrnoGeneric.Error()}, log: "no value of a string"},
	{name: "string at a negative offset", off: values(stringValue, 8), data: int64(-256), all: true,
		want: map[string]string{"string": pdu.ErrnoGeneric.Error()}, log: "no value of a string"},
	{name: "string of an instance", off: values(greenText, 8), data: beyond, all: true, want: map[string]string{"by.text": `3=""`}, log: "no value of a string"},

	{name: "name without end", off: at(func(l mmvtest.Layout) int { return l.Metrics }, 0), data: strings.Repeat("n", 64), v1: true,
		want: map[string]string{"int32": gone, strings.Repeat("n", 63): "-32"}},
	{name: "name beyond", off: func(l mmvtest.Layout) int { return l.Metrics }, data: beyond, want: map[string]string{"int32": gone}, log: "its name at"},
	{name: "name wraps", off: func(l mmvtest.Layout) int { return l.Metrics }, data: uint64(math.MaxUint64 - 15), want: map[string]string{"int32": gone}, log: "its name at"},
	{name: "instance name beyond", off: instances(2, 16), data: beyond,
		want: map[string]string{"by.colour": "3=30 1=10"}, log: "its name at"},
	{name: "instance name wraps", off: instances(2, 16), data: uint64(math.MaxUint64 - 255),
		want: map[string]string{"by.colour": "3=30 1=10"}, log: "its name at"},
	{name: "instance name without end", off: instances(2, 16), data: strings.Repeat("b", 64), v1: true},
}

func init() {
	for _, typ := range []int32{7, 8, 10, 11, 12, -2, math.MaxInt32} {
		corruptions = append(corruptions, corruption{
			name: fmt.Sprint("type ", typ), off: metricField(0, 4), data: typ, all: true,
			want: map[string]string{"int32": gone}, log: fmt.Sprintf("type %d of", typ),
		})
	}
}

func noValues() map[string]string {
	m := make(map[string]string)
	for name, v := range sampleValues {
		if v != "" && v != pdu.ErrnoAppVersion.Error() {
			m[strings.TrimPrefix(name, "mmv.s.")] = pdu.ErrnoInst.Error()
		}
	}
	return m
}

func noInDoms() map[string]string {
	return map[string]string{"by.colour": "", "by.text": "", "by.zero": ""}
}

func TestCorrupt(t *testing.T) {
	for _, tt := range corruptions {
		t.Run(tt.name, func(t *testing.T) {
			for version := int32(1); version <= 3; version++ {
				if !tt.all && tt.v1 != (version == 1) {
					continue
				}
				b, l := mmvtest.Sample(version).Append()
				copy(b[tt.off(l):], mmvtest.Bytes(tt.data))
				checkCorrupt(t, version, b, tt)
			}
		})
	}
}

func checkCorrupt(t *testing.T, version int32, b []byte, tt corruption) {
	dir := t.TempDir()
	mmvtest.Write(t, dir, "s", b)
	one(4).Write(t, dir, "t")
	c := newClient(t, dir)
	want := map[string]string{"mmv.t.m": "4"}
	if !tt.none {
		for name, v := range sampleValues {
			want[name] = v
		}
		for name, v := range tt.want {
			want["mmv.s."+name] = v
			if v == gone {
				delete(want, "mmv.s."+name)
			}
		}
	}
	// Twice: the log has each problem once.
	for range 2 {
		names := c.names()
		if len(names) != len(want) {
			t.Errorf("version %d: %d names, want %d: %q", version, len(names), len(want), names)
		}
		for _, name := range names {
			if got := c.value(name); got != want[name] {
				t.Errorf("version %d: %s is %s, want %s", version, name, got, want[name])
			}
			for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
				if _, err := do[pdu.Text](c, &pdu.TextReq{Ident: uint32(c.id(name)), Kind: kind | pdu.TextPMID}); err != nil && err != error(pdu.ErrnoText) {
					t.Errorf("version %d: text of %s: %v", version, name, err)
				}
			}
		}
		for _, d := range c.indoms {
			for _, inst := range d.insts {
				if inst.Name == "" || len(inst.Name) > 255 {
					t.Errorf("version %d: instance %q", version, inst.Name)
				}
			}
		}
		one(4).Write(t, dir, "t") // the directory is read again
	}
	log := c.log.String()
	if n := strings.Count(log, "\n"); (tt.log != "") != (n > 0) || !strings.Contains(log, tt.log) || strings.Count(log, tt.log) != 1 && tt.log != "" {
		t.Errorf("version %d: the log has not %q once: %s", version, tt.log, log)
	}
}

// Labels are in files of version 3. Whatever is wrong with them, the metrics are there.
func TestCorruptLabels(t *testing.T) {
	payload := func(i int) func(l mmvtest.Layout) int {
		return func(l mmvtest.Layout) int { return l.Labels + i*mmvformat.LabelSize + 12 }
	}
	field := func(i, off int) func(l mmvtest.Layout) int {
		return func(l mmvtest.Layout) int { return l.Labels + i*mmvformat.LabelSize + off }
	}
	for _, tt := range []struct {
		name string
		off  func(l mmvtest.Layout) int
		data any
		want string // labels of the item and of the instance domain
		log  string
	}{
		{"right", abs(0), "MMV", `{"n":2,"note":[true,null]} {"deep.a":1,"deep.b":"x"}`, ""},
		{"beyond", toc(mmvformat.Labels, 8), beyond, " ", "not in the file"},
		{"wrap", toc(mmvformat.Labels, 8), uint64(math.MaxUint64 - 255), " ", "not in the file"},
		{"negative number", toc(mmvformat.Labels, 4), int32(-1), " ", "not in the file"},
		{"many", toc(mmvformat.Labels, 4), int32(math.MaxInt32), " ", "not in the file"},
		{"no end", payload(0), strings.Repeat(" ", mmvformat.LabelPayloadSize), `{"n":2} {"deep.a":1,"deep.b":"x"}`, "ignoring a label"},
		{"deep", payload(0), strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40) + "\x00", `{"n":2} {"deep.a":1,"deep.b":"x"}`, "ignoring a label"},
		{"an array", payload(0), "[1]\x00", `{"n":2} {"deep.a":1,"deep.b":"x"}`, "ignoring a label"},
		{"a name that is none", payload(0), "{\"a b\":1}\x00", `{"n":2} {"deep.a":1,"deep.b":"x"}`, "ignoring a label"},
		{"flags", field(0, 0), uint32(math.MaxUint32), "", ""},
		{"identity", field(0, 4), uint32(math.MaxUint32), `{"n":2} {"deep.a":1,"deep.b":"x"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := mmvtest.Sample(3)
			// The label "note" of the item is the first.
			i := slices.IndexFunc(f.Labels, func(l mmvformat.Label) bool { return strings.HasPrefix(string(l.Payload[:]), `{"note"`) })
			f.Labels = slices.Concat(f.Labels[i:i+1], f.Labels[:i], f.Labels[i+1:])
			b, l := f.Append()
			copy(b[tt.off(l):], mmvtest.Bytes(tt.data))
			dir := t.TempDir()
			mmvtest.Write(t, dir, "s", b)
			c := newClient(t, dir)
			if n := len(c.names()); n != len(sampleValues) {
				t.Errorf("%d metrics, want %d", n, len(sampleValues))
			}
			var sets []string
			for kind := pdu.LabelDomain; kind <= pdu.LabelInstances; kind <<= 1 {
				ident := uint32(pdu.NewPMID(70, 9, 1))
				if kind == pdu.LabelInDom || kind == pdu.LabelInstances {
					ident = uint32(pdu.NewInDom(70, 9<<11|1))
				}
				reply, err := do[pdu.Labels](c, &pdu.LabelReq{Kind: kind, Ident: ident})
				if err != nil {
					t.Errorf("kind %d: %v", kind, err)
				}
				if kind == pdu.LabelItem || kind == pdu.LabelInDom {
					set := ""
					if len(reply.Sets) > 0 {
						set = string(reply.Sets[0].JSON)
					}
					sets = append(sets, set)
				}
			}
			slices.Reverse(sets)
			if got := strings.Join(sets, " "); tt.want != "" && got != tt.want {
				t.Errorf("labels %s, want %s", got, tt.want)
			}
			if log := c.log.String(); (tt.log != "") != (log != "") || !strings.Contains(log, tt.log) {
				t.Errorf("log: %q, want %q", log, tt.log)
			}
		})
	}
}

func TestTooShort(t *testing.T) {
	dir := t.TempDir()
	b, _ := mmvtest.Sample(3).Append()
	for n := 0; n < len(b); n += 97 {
		mmvtest.Write(t, dir, "s", b[:n])
		c := newClient(t, dir)
		for _, name := range c.names() {
			c.value(name)
		}
	}
}

// A sparse file of a terabyte is not read, nor are sections that overlap.
func TestExpensive(t *testing.T) {
	dir := t.TempDir()
	path := mmvtest.Sample(2).Write(t, dir, "large")
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	// Each of 1000 instance domains claims the same 1000 instances.
	f := mmvtest.File{Version: 2, InDoms: make([]mmvtest.InDom, 1000)}
	for i := range f.InDoms {
		f.InDoms[i].Serial = uint32(i + 1)
	}
	for i := range 1000 {
		f.InDoms[0].Insts = append(f.InDoms[0].Insts, mmvtest.Inst{ID: int32(i), Name: "x"})
	}
	b, l := f.Append()
	for i := range f.InDoms {
		copy(b[l.InDoms+i*mmvformat.InDomSize+4:], mmvtest.Bytes(uint32(1000)))
		copy(b[l.InDoms+i*mmvformat.InDomSize+8:], mmvtest.Bytes(uint64(l.Instances)))
	}
	mmvtest.Write(t, dir, "overlap", b)
	one(1).Write(t, dir, "right")
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.control.files": "2", "mmv.right.m": "1"})
	for _, want := range []string{"large: ", "the instances of"} {
		if !strings.Contains(c.log.String(), want) {
			t.Errorf("log: no %q: %s", want, &c.log)
		}
	}
	n := 0
	for _, d := range c.indoms {
		n += len(d.insts)
	}
	if n > 2*len(b)/mmvformat.InstanceV2Size {
		t.Errorf("%d instances from %d bytes", n, len(b))
	}
}

// An instance domain in many parts costs no more than one in one part.
func TestManyParts(t *testing.T) {
	f := mmvtest.File{Version: 2}
	for i := range 2000 {
		f.InDoms = append(f.InDoms, mmvtest.InDom{Serial: 1, Insts: []mmvtest.Inst{{ID: int32(i), Name: "x"}}})
	}
	dir := t.TempDir()
	f.Write(t, dir, "parts")
	c := newClient(t, dir)
	d := c.indoms[serial(1, 1)]
	if d == nil || len(d.insts) != len(f.InDoms) || len(d.from) != len(f.InDoms) {
		t.Fatalf("the instance domain is %v", d)
	}
	// Each part must not copy all parts before it.
	if n := testing.AllocsPerRun(1, d.merge); n > 10 {
		t.Errorf("%v allocations for %d parts", n, len(d.from))
	}
}

// For each value, its metric is looked for in few sections only.
func TestManySections(t *testing.T) {
	testManySections(t, maxMetricSections-1, false)
	testManySections(t, maxMetricSections, true)
}

// testManySections has a file with n sections of metrics more than one.
func testManySections(t *testing.T, n int, tooMany bool) {
	t.Helper()
	f := one(3)
	b, l := f.Append()
	// A table of contents at the end has the sections of f and many others.
	entry := func(typ mmvformat.SectionType) []byte { return b[l.Toc[typ]:][:mmvformat.SectionSize] }
	old := []mmvformat.SectionType{mmvformat.Metrics, mmvformat.Values, mmvformat.Strings}
	move := n * mmvformat.SectionSize
	var toc []byte
	for _, typ := range old {
		e := slices.Clone(entry(typ))
		copy(e[8:], mmvtest.Bytes(native.Uint64(e[8:])+uint64(move)))
		toc = append(toc, e...)
	}
	for range n {
		e := slices.Clone(toc[:mmvformat.SectionSize])
		copy(e[4:], mmvtest.Bytes(int32(0)))
		toc = append(toc, e...)
	}
	moved := slices.Concat(b[:mmvformat.HeaderSize], toc, b[mmvformat.HeaderSize+len(old)*mmvformat.SectionSize:])
	copy(moved[24:], mmvtest.Bytes(int32(n+len(old))))
	// The metric of the value.
	values := l.Values + move
	copy(moved[values+16:], mmvtest.Bytes(uint64(l.Metrics+move)))

	dir := t.TempDir()
	mmvtest.Write(t, dir, "sections", moved)
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.sections.m": "3"})
	if strings.Contains(c.log.String(), "sections of metrics") != tooMany {
		t.Errorf("%d more sections: log: %s", n, &c.log)
	}
}

// What all files may take is limited.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	f := mmvtest.File{Version: 2, InDoms: []mmvtest.InDom{{Serial: 1}}}
	const n = 80000
	for i := range n {
		f.InDoms[0].Insts = append(f.InDoms[0].Insts, mmvtest.Inst{ID: int32(i)})
	}
	b, l := f.Append()
	// All names are the same string, which is at the end.
	off := len(b)
	b = append(b, strings.Repeat("n", 255)+"\x00"...)
	for i := range n {
		copy(b[l.Instances+i*mmvformat.InstanceV2Size+16:], mmvtest.Bytes(uint64(off)))
	}
	target := mmvtest.Write(t, t.TempDir(), "target", b)
	for i := range 12 {
		if err := os.Symlink(target, filepath.Join(dir, fmt.Sprintf("f%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, dir)
	memory := 0
	for _, f := range c.files {
		memory += f.memory
	}
	if memory > maxMemory || memory < maxMemory/2 {
		t.Errorf("%d files take %d bytes", len(c.files), memory)
	}
	for path, e := range c.entries {
		if e.file != nil && !slices.Contains(c.files, e.file) {
			t.Errorf("%s is kept", path)
		}
	}
	if !strings.Contains(c.log.String(), "too much memory") {
		t.Errorf("log: %s", &c.log)
	}
}

// A name in the directory cannot forge lines of the log.
func TestLogName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a\nforged: b", "a\x1b[2J", "a\xff", "my app é"} {
		mmvtest.Write(t, dir, name, []byte("MMX\x00"))
	}
	c := newClient(t, dir)
	log := c.log.String()
	if n := strings.Count(log, "\n"); n != 4 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{`/a\nforged: b: `, `/a\x1b[2J: `, `/a\xff: `, "/my app é: "} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

// The lines of the log are limited.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * maxLines {
		mmvtest.Write(t, dir, fmt.Sprint("f", i), []byte("MMX\x00"))
	}
	c := newClient(t, dir)
	if got := strings.Count(c.log.String(), "\n"); got != maxLines+1 || !strings.Contains(c.log.String(), "further messages") {
		t.Errorf("%d lines", got)
	}
}
