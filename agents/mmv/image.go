package mmv

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// An image is the contents of a file. Numbers are zero; move sets them.
type image struct {
	bytes  []byte
	values uint64         // offset of the values
	texts  map[int]uint64 // offsets of the first of two strings, by the number of the value
}

// entry returns the i-th value of a file with this image.
func (img *image) entry(m *mapping, i int) *entry {
	at := img.values + uint64(i)*mmvformat.ValueSize
	e := &entry{value: m.word(at), extra: m.word(at + 8), file: m}
	if text, ok := img.texts[i]; ok {
		e.text = new(textSlots)
		for j := range e.text.offset {
			from := text + uint64(j)*mmvformat.StringSize
			e.text.offset[j], e.text.bytes[j] = from, m.data[from:from+mmvformat.StringSize]
		}
	}
	return e
}

// image returns what the file has to be. Items and serials are chosen first, where the
// program has not. The caller holds mu.
func (r *Registry) image() *image {
	var b builder
	ninsts, nvalues := 0, 0
	for _, x := range r.domains {
		if x.desc.Serial == 0 {
			x.desc.Serial = r.serials.choose()
		}
		ninsts += len(x.list)
	}
	for _, m := range r.metrics {
		if m.Item == 0 {
			m.Item = r.items.choose()
		}
		nvalues += len(m.cells)
	}

	// Counts first, then offsets, then contents.
	sections := []mmvformat.Section{
		{Type: mmvformat.InDoms, Count: int32(len(r.domains))},
		{Type: mmvformat.Instances, Count: int32(ninsts)},
		{Type: mmvformat.Metrics, Count: int32(len(r.metrics))},
		{Type: mmvformat.Values, Count: int32(nvalues)},
		{Type: mmvformat.Strings},
		{Type: mmvformat.Labels, Count: int32(r.nlabels)},
	}
	if len(r.domains) == 0 {
		sections = sections[2:] // no InDoms and Instances
	}
	if r.nlabels == 0 {
		sections = sections[:len(sections)-1]
	}
	sizes := map[mmvformat.SectionType]uint64{
		mmvformat.InDoms: mmvformat.InDomSize, mmvformat.Instances: mmvformat.InstanceV2Size,
		mmvformat.Metrics: mmvformat.MetricV2Size, mmvformat.Values: mmvformat.ValueSize,
	}
	offsets := make(map[mmvformat.SectionType]uint64)
	at := uint64(mmvformat.HeaderSize + len(sections)*mmvformat.SectionSize)
	for _, s := range sections {
		offsets[s.Type] = at // that of Labels is not known yet
		at += uint64(s.Count) * sizes[s.Type]
	}
	b.strings.offset = offsets[mmvformat.Strings]

	r.putInstances(&b, offsets)
	texts := r.putMetrics(&b, offsets)
	r.putLabels(&b)
	now := time.Now()
	generation := uint64(now.Unix())<<32 | uint64(now.Nanosecond()/1000)
	h := mmvformat.Header{
		Version: mmvformat.Version3, Generation1: generation, Generation2: generation,
		Sections: int32(len(sections)), Process: int32(os.Getpid()), Cluster: int32(r.conf.Cluster),
	}
	copy(h.Magic[:], mmvformat.Magic)
	if r.conf.NoPrefix {
		h.Flags |= mmvformat.FlagNoPrefix
	}
	if !r.conf.Persistent {
		h.Flags |= mmvformat.FlagProcess
	}
	if r.conf.Sentinel {
		h.Flags |= mmvformat.FlagSentinel
	}
	out := put(nil, h)
	for _, s := range sections {
		s.Offset = offsets[s.Type]
		switch s.Type {
		case mmvformat.Strings:
			s.Count = int32(len(b.strings.bytes) / mmvformat.StringSize)
		case mmvformat.Labels:
			s.Offset = b.strings.offset + uint64(len(b.strings.bytes))
		}
		out = put(out, s)
	}
	for _, part := range [][]byte{b.indoms, b.instances, b.metrics, b.values, b.strings.bytes, b.labels} {
		out = append(out, part...)
	}
	return &image{bytes: out, values: offsets[mmvformat.Values], texts: texts}
}

// A builder has the contents of the sections.
type builder struct {
	indoms, instances, metrics, values, labels []byte
	strings                                    stringSection
}

// put appends a struct of the format.
func put(b []byte, v any) []byte {
	b, err := binary.Append(b, binary.NativeEndian, v)
	if err != nil {
		panic(err) // v is not of a fixed size
	}
	return b
}

type stringSection struct {
	bytes  []byte
	offset uint64 // of the section
}

// add adds a string and returns its offset.
func (s *stringSection) add(text string) uint64 {
	at := s.offset + uint64(len(s.bytes))
	var t mmvformat.Text
	copy(t[:], text)
	s.bytes = append(s.bytes, t[:]...)
	return at
}

// addText adds a help text, unless it is empty, which has the offset 0.
func (s *stringSection) addText(text string) uint64 {
	if text == "" {
		return 0
	}
	return s.add(text)
}

func (r *Registry) putInstances(b *builder, offsets map[mmvformat.SectionType]uint64) {
	for i, x := range r.domains {
		b.indoms = put(b.indoms, mmvformat.InDom{
			Serial: uint32(x.desc.Serial), Count: uint32(len(x.list)),
			Instances: offsets[mmvformat.Instances] + uint64(len(b.instances)),
			ShortText: b.strings.addText(x.desc.OneLine), HelpText: b.strings.addText(x.desc.Text),
		})
		for _, inst := range x.list {
			b.instances = put(b.instances, mmvformat.InstanceV2{
				InDom: offsets[mmvformat.InDoms] + uint64(i)*mmvformat.InDomSize, ID: inst.id,
				Name: b.strings.add(inst.name),
			})
		}
	}
}

// putMetrics also puts the values, and returns the offsets of those that are strings.
func (r *Registry) putMetrics(b *builder, offsets map[mmvformat.SectionType]uint64) map[int]uint64 {
	first := make(map[*Instances]uint64) // offset of the first instance
	at := offsets[mmvformat.Instances]
	for _, x := range r.domains {
		first[x] = at
		at += uint64(len(x.list)) * mmvformat.InstanceV2Size
	}
	texts := make(map[int]uint64)
	n := 0
	for i, m := range r.metrics {
		serial := mmvformat.NoInDom
		if m.domain != nil {
			serial = m.domain.desc.Serial
		}
		b.metrics = put(b.metrics, mmvformat.MetricV2{Name: b.strings.add(m.Name), MetricFields: mmvformat.MetricFields{
			Item: uint32(m.Item), Type: m.typ, Sem: int32(m.Sem), Units: uint32(m.Units), InDom: int32(serial),
			ShortText: b.strings.addText(m.OneLine), HelpText: b.strings.addText(m.Text),
		}})
		for j := range m.cells {
			v := mmvformat.Value{Metric: offsets[mmvformat.Metrics] + uint64(i)*mmvformat.MetricV2Size}
			if m.domain != nil {
				v.Instance = first[m.domain] + uint64(j)*mmvformat.InstanceV2Size
			}
			if m.typ == mmvformat.String {
				texts[n] = b.strings.add("")
				b.strings.add("") // textSlots
				v.Extra = int64(texts[n])
			}
			b.values = put(b.values, v)
			n++
		}
	}
	return texts
}

func (r *Registry) putLabels(b *builder) {
	add := func(labels []label, flags, identity uint32, instance int32) {
		for _, l := range labels {
			out := mmvformat.Label{Flags: flags | l.flags, Identity: identity, Instance: instance}
			copy(out.Payload[:], l.payload)
			b.labels = put(b.labels, out)
		}
	}
	add(r.labels, mmvformat.LabelCluster, uint32(r.conf.Cluster), mmvformat.NoInstance)
	for _, m := range r.metrics {
		add(m.labels, mmvformat.LabelItem, uint32(m.Item), mmvformat.NoInstance)
	}
	for _, x := range r.domains {
		add(x.labels, mmvformat.LabelInDom, uint32(x.desc.Serial), mmvformat.NoInstance)
		for _, inst := range x.list {
			add(inst.labels, mmvformat.LabelInstances, uint32(x.desc.Serial), inst.id)
		}
	}
}

// word returns the 8 bytes at an offset, which is a multiple of 8 in all entries of a file.
func (m *mapping) word(offset uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&m.data[offset : offset+8][0]))
}
