package mmv

import (
	"cmp"
	"slices"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// A file is what was read of a file of the directory. It does not change, except for
// what an index sets.
type file struct {
	name   string // in the directory
	path   string
	id     fileID
	size   int64
	raw    [mmvformat.HeaderSize]byte // the header, as it was read
	header mmvformat.Header

	metrics []metric
	items   []int16 // for each item the index of its metric, or -1
	indoms  []fileInDom
	labels  []label
	tree    *node // names of metrics below that of the file; nil if there are none
	memory  int   // about how many bytes of memory all this takes

	// Set by an index.
	cluster  int
	position int // among all files
}

// A metric is a metric of a file.
type metric struct {
	name        string // full name
	item        int
	typ         mmvformat.Type
	sem         pdu.Sem
	units       pdu.Units
	serial      uint32 // of its instance domain; 0 is none
	short, help uint64 // offsets of its texts; 0 is none
	values      []valueRef

	own   bool // it has its name in the tree of the file, and not a metric before it
	named bool // set by an index: it has its name, and not a metric before it
}

// A valueRef says where a value is in its file, which is shorter than maxRead.
type valueRef struct {
	inst int32 // the values of a metric ascend
	off  uint32
}

// A fileInDom is an instance domain, as far as the file has it.
type fileInDom struct {
	serial      uint32
	short, help uint64
	insts       []pdu.Inst
}

// A label is a label of the file's cluster, or of a metric, instance domain or instance.
type label struct {
	mmvformat.Label // without Payload
	named           []pdu.NamedLabel
}

// item returns the metric with an item number, or nil.
func (f *file) item(n int) *metric {
	if n >= len(f.items) || f.items[n] < 0 {
		return nil
	}
	return &f.metrics[f.items[n]]
}

// value returns where the value of an instance is; pdu.NoInst is that of a metric
// without instances.
func (m *metric) value(inst int32) (off uint32, ok bool) {
	i, ok := slices.BinarySearchFunc(m.values, inst, func(v valueRef, inst int32) int {
		return cmp.Compare(v.inst, inst)
	})
	if !ok {
		return 0, false
	}
	return m.values[i].off, true
}

// desc returns the descriptor of m. The type Elapsed has one of its own, whatever the
// file says.
func (m *metric) desc(id pdu.PMID, indom pdu.InDom) pdu.Desc {
	d := pdu.Desc{PMID: id, ValueType: pdu.MetricType(m.typ), InDom: indom, Sem: m.sem, Units: m.units}
	if m.typ == mmvformat.Elapsed {
		d.ValueType, d.Sem = pdu.Metric64, pdu.SemCounter
		d.Units = pdu.Usec
	}
	return d
}

// complete reports whether the writer has finished the file.
func complete(h *mmvformat.Header) bool { return h.Generation1 != 0 && h.Generation1 == h.Generation2 }
