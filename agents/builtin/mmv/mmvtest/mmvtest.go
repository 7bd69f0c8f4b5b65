// Package mmvtest makes MMV files for tests, right ones and wrong ones. For
// applications there is agents/mmv.
package mmvtest

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// A File is the content of a file. Its sections are in the order of the fields.
type File struct {
	Version  int32 // 0 is the lowest that can represent the file
	Flags    uint32
	Process  int32
	Cluster  int32
	InDoms   []InDom
	Metrics  []Metric
	Labels   []mmvformat.Label
	Influx   bool   // the file is not complete
	Sections int32  // added to the number of sections in the header
	Gen      uint64 // 0 is 1
}

// An InDom is an instance domain.
type InDom struct {
	Serial      uint32
	Short, Help string
	Insts       []Inst
}

// An Inst is an instance.
type Inst struct {
	ID   int32
	Name string
}

// A Metric is a metric.
type Metric struct {
	Name        string
	Item        uint32
	Type        mmvformat.Type
	Sem         int32
	Units       uint32
	InDom       int32
	Short, Help string
	Values      []Value
}

// A Value is a value. Data is a number or a string.
type Value struct {
	Inst  int32 // of the metric's instance domain
	Data  any
	Extra int64
}

// A Layout says where the parts of a file are, for tests that change them.
type Layout struct {
	InDoms, Instances, Metrics, Values, Strings, Labels int // offsets of sections
	Toc                                                 map[mmvformat.SectionType]int
	MetricSize, InstanceSize                            int
}

// Append makes a file.
func (f *File) Append() ([]byte, Layout) {
	b := &builder{f: f, v: f.version(), instances: make(map[[2]int32]uint64)}
	b.layOut()
	for _, d := range f.InDoms {
		b.addInDom(&d)
	}
	for _, m := range f.Metrics {
		b.addMetric(&m)
	}
	for _, l := range f.Labels {
		put(&b.labels, l)
	}
	return b.bytes(), b.l
}

// A builder makes a file.
type builder struct {
	f         *File
	l         Layout
	v         int32
	toc       []mmvformat.Section
	instances map[[2]int32]uint64 // where they are, by domain and number

	doms, insts, metrics, values, labels, text bytes.Buffer // sections
}

// layOut finds the offsets of sections. Only the number of strings is not known yet.
func (b *builder) layOut() {
	b.l.MetricSize, b.l.InstanceSize, b.l.Toc = mmvformat.MetricV2Size, mmvformat.InstanceV2Size, make(map[mmvformat.SectionType]int)
	if b.v == mmvformat.Version1 {
		b.l.MetricSize, b.l.InstanceSize = mmvformat.MetricV1Size, mmvformat.InstanceV1Size
	}
	insts, values := 0, 0
	for _, d := range b.f.InDoms {
		insts += len(d.Insts)
	}
	for _, m := range b.f.Metrics {
		values += len(m.Values)
	}
	type section struct {
		t       mmvformat.SectionType
		n, size int
		at      *int
	}
	sections := []section{
		{mmvformat.Metrics, len(b.f.Metrics), b.l.MetricSize, &b.l.Metrics},
		{mmvformat.Values, values, mmvformat.ValueSize, &b.l.Values},
	}
	if n := len(b.f.InDoms); n > 0 {
		sections = slices.Insert(sections, 0, section{mmvformat.InDoms, n, mmvformat.InDomSize, &b.l.InDoms},
			section{mmvformat.Instances, insts, b.l.InstanceSize, &b.l.Instances})
	}
	if n := len(b.f.Labels); n > 0 {
		sections = append(sections, section{mmvformat.Labels, n, mmvformat.LabelSize, &b.l.Labels})
	}
	sections = append(sections, section{mmvformat.Strings, 0, mmvformat.StringSize, &b.l.Strings})
	off := mmvformat.HeaderSize + len(sections)*mmvformat.SectionSize
	for i, s := range sections {
		*s.at = off
		b.l.Toc[s.t] = mmvformat.HeaderSize + i*mmvformat.SectionSize
		b.toc = append(b.toc, mmvformat.Section{Type: s.t, Count: int32(s.n), Offset: uint64(off)})
		off += s.n * s.size
	}
}

// addText adds a text, and returns its offset.
func (b *builder) addText(s string) uint64 {
	at := b.l.Strings + b.text.Len()
	var t mmvformat.Text
	copy(t[:], s)
	b.text.Write(t[:])
	return uint64(at)
}

// optional is addText, but 0 if there is no text.
func (b *builder) optional(s string) uint64 {
	if s == "" {
		return 0
	}
	return b.addText(s)
}

func (b *builder) addInDom(d *InDom) {
	at := uint64(b.l.InDoms + b.doms.Len())
	put(&b.doms, mmvformat.InDom{
		Serial: d.Serial, Count: uint32(len(d.Insts)), Instances: uint64(b.l.Instances + b.insts.Len()), ShortText: b.optional(d.Short), HelpText: b.optional(d.Help),
	})
	for _, i := range d.Insts {
		b.instances[[2]int32{int32(d.Serial), i.ID}] = uint64(b.l.Instances + b.insts.Len())
		if b.v == mmvformat.Version1 {
			e := mmvformat.InstanceV1{InDom: at, ID: i.ID}
			copy(e.Name[:], i.Name)
			put(&b.insts, e)
		} else {
			put(&b.insts, mmvformat.InstanceV2{InDom: at, ID: i.ID, Name: b.optional(i.Name)})
		}
	}
}

func (b *builder) addMetric(m *Metric) {
	at := uint64(b.l.Metrics + b.metrics.Len())
	fields := mmvformat.MetricFields{
		Item: m.Item, Type: m.Type, Sem: m.Sem, Units: m.Units, InDom: m.InDom, ShortText: b.optional(m.Short), HelpText: b.optional(m.Help),
	}
	if b.v == mmvformat.Version1 {
		e := mmvformat.MetricV1{MetricFields: fields}
		copy(e.Name[:], m.Name)
		put(&b.metrics, e)
	} else {
		put(&b.metrics, mmvformat.MetricV2{Name: b.optional(m.Name), MetricFields: fields})
	}
	for _, value := range m.Values {
		e := mmvformat.Value{Metric: at, Extra: value.Extra, Instance: b.instances[[2]int32{m.InDom, value.Inst}]}
		if text, ok := value.Data.(string); ok {
			e.Extra = int64(b.addText(text))
		} else {
			e.Data = Data(value.Data)
		}
		put(&b.values, e)
	}
}

// bytes returns the file.
func (b *builder) bytes() []byte {
	b.toc[len(b.toc)-1].Count = int32(b.text.Len() / mmvformat.StringSize)
	gen := max(b.f.Gen, 1)
	h := mmvformat.Header{
		Version: b.v, Generation1: gen, Generation2: gen, Sections: int32(len(b.toc)) + b.f.Sections,
		Flags: b.f.Flags, Process: b.f.Process, Cluster: b.f.Cluster,
	}
	copy(h.Magic[:], mmvformat.Magic)
	if b.f.Influx {
		h.Generation2 = 0
	}
	var out bytes.Buffer
	put(&out, h)
	for _, s := range b.toc {
		put(&out, s)
	}
	for _, section := range []*bytes.Buffer{&b.doms, &b.insts, &b.metrics, &b.values, &b.labels, &b.text} {
		out.Write(section.Bytes())
	}
	return out.Bytes()
}

func (f *File) version() int32 {
	if f.Version != 0 {
		return f.Version
	}
	v := int32(mmvformat.Version1)
	if len(f.Labels) > 0 {
		return mmvformat.Version3
	}
	for _, m := range f.Metrics {
		if len(m.Name) >= mmvformat.NameSize {
			v = mmvformat.Version2
		}
	}
	for _, d := range f.InDoms {
		for _, i := range d.Insts {
			if len(i.Name) >= mmvformat.NameSize {
				v = mmvformat.Version2
			}
		}
	}
	return v
}

// Data returns the bytes of a number: int and uint have 64 bits. Bytes are returned as they are.
func Data(x any) (b [8]byte) {
	switch x := x.(type) {
	case int:
		binary.NativeEndian.PutUint64(b[:], uint64(x))
	case uint64:
		binary.NativeEndian.PutUint64(b[:], x)
	case int32:
		binary.NativeEndian.PutUint32(b[:], uint32(x))
	case uint32:
		binary.NativeEndian.PutUint32(b[:], x)
	case float32:
		binary.NativeEndian.PutUint32(b[:], math.Float32bits(x))
	case float64:
		binary.NativeEndian.PutUint64(b[:], math.Float64bits(x))
	case [8]byte:
		b = x
	case nil:
	default:
		panic("no data")
	}
	return b
}

func put(w *bytes.Buffer, x any) {
	if err := binary.Write(w, binary.NativeEndian, x); err != nil {
		panic(err)
	}
}

// Label returns a label.
func Label(flags, identity uint32, inst int32, payload string) mmvformat.Label {
	l := mmvformat.Label{Flags: flags, Identity: identity, Instance: inst}
	copy(l.Payload[:], payload)
	return l
}

// Write writes a file into dir, as writers do: the new file replaces the old one.
func (f *File) Write(tb testing.TB, dir, name string) (path string) {
	tb.Helper()
	b, _ := f.Append()
	return Write(tb, dir, name, b)
}

// Write writes a file into dir, as writers do: the new file replaces the old one.
func Write(tb testing.TB, dir, name string, b []byte) (path string) {
	tb.Helper()
	path = filepath.Join(dir, name)
	// Its name is hidden while it is written.
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Poke changes bytes of a file in its place.
func Poke(tb testing.TB, path string, off int, x any) {
	tb.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(Bytes(x), int64(off)); err != nil {
		tb.Fatal(err)
	}
}

// Bytes returns x in the byte order of the host.
func Bytes(x any) []byte {
	if s, ok := x.(string); ok {
		return []byte(s)
	}
	b, err := binary.Append(nil, binary.NativeEndian, x)
	if err != nil {
		panic(err)
	}
	return b
}

// Sample is a file with metrics of all types, with and without instances.
func Sample(version int32) *File {
	f := &File{Version: version, InDoms: []InDom{
		{Serial: 1, Short: "colours", Help: "Names of colours.", Insts: []Inst{{3, "red"}, {1, "green one"}, {2, "blue"}}},
		{Serial: 2, Insts: []Inst{{0, "zero"}}},
		{Serial: 3},
	}}
	add := func(name string, typ mmvformat.Type, sem int32, indom int32, values ...Value) {
		f.Metrics = append(f.Metrics, Metric{
			Name: name, Item: uint32(len(f.Metrics) + 1), Type: typ, Sem: sem, InDom: indom, Units: 1<<20 | uint32(len(f.Metrics))<<12,
			Short: "short text of " + name, Help: "Full text of\n" + name + ".", Values: values,
		})
	}
	one := func(x any) Value { return Value{Data: x} }
	add("int32", mmvformat.Int32, 3, 0, one(int32(-32)))
	add("uint32", mmvformat.Uint32, 1, -1, one(uint32(1<<31)))
	add("int64", mmvformat.Int64, 4, 0, one(-64))
	add("uint64", mmvformat.Uint64, 0, 0, one(uint64(1)<<63))
	add("float", mmvformat.Float, 3, 0, one(float32(1.5)))
	add("double", mmvformat.Double, 3, 0, one(-2.25))
	add("string", mmvformat.String, 3, 0, one("hello"))
	add("elapsed", mmvformat.Elapsed, 3, 0, one(1000))
	add("by.colour", mmvformat.Uint64, 1, 1, Value{Inst: 2, Data: 20}, Value{Inst: 3, Data: 30}, Value{Inst: 1, Data: 10})
	add("by.text", mmvformat.String, 4, 1, Value{Inst: 1, Data: "g"}, Value{Inst: 3, Data: ""})
	add("by.zero", mmvformat.Int32, 3, 2, Value{Data: int32(7)})
	add("by.none", mmvformat.Int32, 3, 3)
	add("without", mmvformat.Int32, 3, 0)
	add("nosupport", mmvformat.NoSupport, 3, 0, one(1))
	f.Metrics[0].Help = ""
	f.Metrics[1].Short, f.Metrics[1].Help = "", ""
	if version == mmvformat.Version3 {
		f.Cluster = 9
		f.Labels = []mmvformat.Label{
			Label(mmvformat.LabelCluster, 9, -1, `{"of":"cluster"}`),
			Label(mmvformat.LabelItem, 1, -1, `{"n":1.50}`),
			Label(mmvformat.LabelItem|mmvformat.LabelOptional, 1, -1, `{"note":[true,null]}`),
			Label(mmvformat.LabelItem, 1, -1, `{"n":2}`),
			Label(mmvformat.LabelInDom, 1, -1, `{"deep":{"a":1,"b":"x"}}`),
			Label(mmvformat.LabelInstances, 1, 2, `{"c":"b"}`),
			Label(mmvformat.LabelInstances, 1, 3, `{"c":"r"}`),
			Label(mmvformat.LabelInstances, 1, 3, `{"d":false}`),
		}
	}
	return f
}
