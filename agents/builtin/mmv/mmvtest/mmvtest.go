// Package mmvtest makes MMV files for tests, right ones and wrong ones. For
// applications there is agents/mmv.
package mmvtest

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/agents/internal/mmvformat"
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
	v := f.version()
	l := Layout{MetricSize: mmvformat.MetricV2Size, InstanceSize: mmvformat.InstanceV2Size, Toc: make(map[mmvformat.SectionType]int)}
	if v == mmvformat.Version1 {
		l.MetricSize, l.InstanceSize = mmvformat.MetricV1Size, mmvformat.InstanceV1Size
	}
	insts, values := 0, 0
	for _, d := range f.InDoms {
		insts += len(d.Insts)
	}
	for _, m := range f.Metrics {
		values += len(m.Values)
	}
	var toc []mmvformat.Section
	sections := 3 // metrics, values, strings
	if len(f.InDoms) > 0 {
		sections += 2
	}
	if len(f.Labels) > 0 {
		sections++
	}
	off := mmvformat.HeaderSize + sections*mmvformat.SectionSize
	section := func(t mmvformat.SectionType, n, size int) (at int) {
		at = off
		l.Toc[t] = mmvformat.HeaderSize + len(toc)*mmvformat.SectionSize
		toc = append(toc, mmvformat.Section{Type: t, Count: int32(n), Offset: uint64(off)})
		off += n * size
		return at
	}
	if len(f.InDoms) > 0 {
		l.InDoms = section(mmvformat.InDoms, len(f.InDoms), mmvformat.InDomSize)
		l.Instances = section(mmvformat.Instances, insts, l.InstanceSize)
	}
	l.Metrics = section(mmvformat.Metrics, len(f.Metrics), l.MetricSize)
	l.Values = section(mmvformat.Values, values, mmvformat.ValueSize)
	if len(f.Labels) > 0 {
		l.Labels = section(mmvformat.Labels, len(f.Labels), mmvformat.LabelSize)
	}
	l.Strings = off

	var text bytes.Buffer
	str := func(s string) uint64 {
		if s == "" {
			return 0
		}
		at := l.Strings + text.Len()
		var b mmvformat.Text
		copy(b[:], s)
		text.Write(b[:])
		return uint64(at)
	}
	var doms, inst, metrics, vals, labels bytes.Buffer
	instAt := make(map[[2]int32]uint64)
	for _, d := range f.InDoms {
		put(&doms, mmvformat.InDom{
			Serial: d.Serial, Count: uint32(len(d.Insts)), Instances: uint64(l.Instances + inst.Len()), ShortText: str(d.Short), HelpText: str(d.Help),
		})
		at := uint64(l.InDoms + doms.Len() - mmvformat.InDomSize)
		for _, i := range d.Insts {
			instAt[[2]int32{int32(d.Serial), i.ID}] = uint64(l.Instances + inst.Len())
			if v == mmvformat.Version1 {
				e := mmvformat.InstanceV1{InDom: at, ID: i.ID}
				copy(e.Name[:], i.Name)
				put(&inst, e)
			} else {
				put(&inst, mmvformat.InstanceV2{InDom: at, ID: i.ID, Name: str(i.Name)})
			}
		}
	}
	for _, m := range f.Metrics {
		at := uint64(l.Metrics + metrics.Len())
		fields := mmvformat.MetricFields{
			Item: m.Item, Type: m.Type, Sem: m.Sem, Units: m.Units, InDom: m.InDom, ShortText: str(m.Short), HelpText: str(m.Help),
		}
		if v == mmvformat.Version1 {
			e := mmvformat.MetricV1{MetricFields: fields}
			copy(e.Name[:], m.Name)
			put(&metrics, e)
		} else {
			put(&metrics, mmvformat.MetricV2{Name: str(m.Name), MetricFields: fields})
		}
		for _, value := range m.Values {
			e := mmvformat.Value{Metric: at, Extra: value.Extra, Instance: instAt[[2]int32{m.InDom, value.Inst}]}
			switch x := value.Data.(type) {
			case string:
				at := l.Strings + text.Len()
				var b mmvformat.Text
				copy(b[:], x)
				text.Write(b[:])
				e.Extra = int64(at)
			default:
				e.Data = Data(x)
			}
			put(&vals, e)
		}
	}
	for _, lb := range f.Labels {
		put(&labels, lb)
	}
	section(mmvformat.Strings, text.Len()/mmvformat.StringSize, mmvformat.StringSize)

	var out bytes.Buffer
	gen := max(f.Gen, 1)
	h := mmvformat.Header{
		Version: v, Generation1: gen, Generation2: gen, Sections: int32(sections) + f.Sections,
		Flags: f.Flags, Process: f.Process, Cluster: f.Cluster,
	}
	copy(h.Magic[:], mmvformat.Magic)
	if f.Influx {
		h.Generation2 = 0
	}
	put(&out, h)
	for _, s := range toc {
		put(&out, s)
	}
	for _, b := range []*bytes.Buffer{&doms, &inst, &metrics, &vals, &labels, &text} {
		out.Write(b.Bytes())
	}
	return out.Bytes(), l
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
