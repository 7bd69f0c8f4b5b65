package mmv

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

func (l *loader) loadMetrics(s mmvformat.Section) {
	if n := len(l.metrics) + int(s.Count); n <= mmvformat.MaxItem+1 {
		l.metrics = slices.Grow(l.metrics, int(s.Count))
	}
	l.sections = append(l.sections, s)
	l.each(s, l.loadMetric)
}

func (l *loader) loadMetric(off uint64, b []byte) {
	var name []byte
	var d mmvformat.MetricFields
	if l.header.Version == mmvformat.Version1 {
		name, _ = cutText(b[:mmvformat.NameSize])
		d = metricFields(b[mmvformat.NameSize:])
	} else {
		var ok bool
		if name, _, ok = l.text(native.Uint64(b)); !ok {
			l.problems.add("ignoring a metric", "its name at %d is not in the file", native.Uint64(b))
			return
		}
		d = metricFields(b[8:])
	}
	m := metric{
		item: int(d.Item), typ: d.Type, sem: pdu.Sem(d.Sem), units: pdu.Units(d.Units),
		serial: uint32(d.InDom), short: d.ShortText, help: d.HelpText,
	}
	full := l.prefix + string(name)
	if !isName(full) {
		l.problems.add("ignoring a metric", "%q is no valid name", full)
		return
	}
	switch {
	case d.Item > mmvformat.MaxItem:
		l.problems.add("ignoring a metric", "item %d of %s is not in 0 to %d", d.Item, full, mmvformat.MaxItem)
		return
	case l.item(m.item) != nil:
		l.problems.add("ignoring a metric", "item %d of %s is that of another metric", d.Item, full)
		return
	case m.typ != mmvformat.NoSupport && m.typ != mmvformat.Elapsed && (m.typ < mmvformat.Int32 || m.typ > mmvformat.String):
		l.problems.add("ignoring a metric", "type %d of %s is unknown", m.typ, full)
		return
	}
	switch m.sem {
	case 0:
		m.sem = pdu.SemCounter
	case pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete:
	default:
		if m.typ != mmvformat.Elapsed {
			l.problems.add("ignoring a metric", "semantics %d of %s are unknown", m.sem, full)
			return
		}
	}
	if d.InDom == mmvformat.NoInDom {
		m.serial = 0
	}
	if m.serial > maxSerial {
		l.problems.add("ignoring a metric", "instance domain %d of %s is not in 0 to %d", d.InDom, full, maxSerial)
		return
	}
	m.name = full
	for len(l.items) <= m.item {
		l.items = append(l.items, -1)
	}
	l.items[m.item] = int16(len(l.metrics))
	l.metrics = append(l.metrics, m)
	l.offsets = append(l.offsets, off)
	l.memory += 208 + 2*len(full)
	if l.header.Flags&mmvformat.FlagNoPrefix != 0 {
		l.memory += nodeCost * (1 + strings.Count(full, ".")) // of the index: see makeTree for other files
	}
}

// maxSerial is the largest serial of an instance domain.
const maxSerial = 1<<22 - 1

func (l *loader) loadInDoms(s mmvformat.Section) {
	l.each(s, func(_ uint64, b []byte) {
		d := indom(b)
		size := entrySize(mmvformat.Instances, l.header.Version)
		insts := l.at(d.Instances, uint64(d.Count)*size)
		switch {
		case d.Serial > maxSerial:
			l.problems.add("ignoring an instance domain", "serial %d is not in 0 to %d", d.Serial, maxSerial)
			return
		case insts == nil:
			l.problems.add("ignoring an instance domain", "the %d instances of %d at %d are not in the file", d.Count, d.Serial, d.Instances)
			return
		case !l.spend(len(insts)):
			l.problems.add("ignoring an instance domain", "the instances of %d are those of others", d.Serial)
			return
		}
		fd := fileInDom{serial: d.Serial, short: d.ShortText, help: d.HelpText, insts: make([]pdu.Inst, 0, d.Count)}
		for b := range slices.Chunk(insts, int(size)) {
			if l.stopped() {
				return
			}
			if inst, ok := l.instance(b, d.Serial); ok {
				fd.insts = append(fd.insts, inst)
			}
		}
		l.memory += 176 + 24*int(d.Count) // with its part of the index
		l.indoms = append(l.indoms, fd)
	})
}

// instance decodes an instance.
func (l *loader) instance(b []byte, serial uint32) (inst pdu.Inst, ok bool) {
	var name []byte
	if l.header.Version == mmvformat.Version1 {
		name, _ = cutText(b[16:])
	} else {
		var ended bool
		if name, ended, ok = l.text(native.Uint64(b[16:])); !ok || !ended {
			l.problems.add("ignoring an instance", "its name at %d is not in the file", native.Uint64(b[16:]))
			return inst, false
		}
	}
	if l.memory += len(name); l.memory > maxFileMemory {
		l.problems.add("ignoring an instance", "the names of instances are too long altogether")
		return inst, false
	}
	inst.ID = instanceID(b)
	// Other negative ids are in use: some writers take hashes of names.
	if inst.ID == pdu.NoInst || len(name) == 0 {
		l.problems.add("ignoring an instance", "%d %q of instance domain %d has the id -1 or no name", inst.ID, name, serial)
		return inst, false
	}
	inst.Name = string(name)
	return inst, true
}

// loadValues sets the values of all metrics.
func (l *loader) loadValues(s mmvformat.Section) {
	type found struct {
		metric int16
		valueRef
	}
	list := make([]found, 0, s.Count)
	l.each(s, func(off uint64, b []byte) {
		v := value(b)
		i, ok := l.metricAt(v.Metric)
		if !ok {
			l.problems.add("ignoring a value", "there is no metric at %d", v.Metric)
			return
		}
		if i < 0 {
			return
		}
		ref := valueRef{pdu.NoInst, uint32(off)}
		if l.metrics[i].serial != 0 {
			inst := l.at(v.Instance, entrySize(mmvformat.Instances, l.header.Version))
			if inst == nil || instanceID(inst) == pdu.NoInst {
				l.problems.add("ignoring a value", "there is no instance at %d", v.Instance)
				return
			}
			ref.inst = instanceID(inst)
		}
		list = append(list, found{int16(i), ref})
	})
	// Stable: of two values for the same instance the first counts.
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.inst, b.inst))
	})
	list = slices.CompactFunc(list, func(a, b found) bool { return a.metric == b.metric && a.inst == b.inst })
	refs := make([]valueRef, len(list))
	l.memory += 8 * len(list)
	for i := 0; i < len(list); {
		m := &l.metrics[list[i].metric]
		first := i
		for n := list[i].metric; i < len(list) && list[i].metric == n; i++ {
			refs[i] = list[i].valueRef
		}
		m.values = refs[first:i:i]
	}
}

// metricAt returns the index of the metric that is at an offset, or -1 if that is ignored. ok is
// false if there is none.
func (l *loader) metricAt(off uint64) (i int, ok bool) {
	size := entrySize(mmvformat.Metrics, l.header.Version)
	for _, s := range l.sections {
		if off < s.Offset || off-s.Offset >= uint64(s.Count)*size || (off-s.Offset)%size != 0 {
			continue
		}
		item := native.Uint32(l.at(off, size)[size-metricFieldsSize:])
		if item > mmvformat.MaxItem || l.item(int(item)) == nil || l.offsets[l.items[item]] != off {
			return -1, true
		}
		return int(l.items[item]), true
	}
	return 0, false
}

// metricFieldsSize is the size of what follows the name of a metric.
const metricFieldsSize = mmvformat.MetricV2Size - 8

func (l *loader) loadLabels(s mmvformat.Section) {
	l.each(s, func(_ uint64, b []byte) {
		var lb label
		lb.Flags, lb.Identity, lb.Instance = native.Uint32(b), native.Uint32(b[4:]), int32(native.Uint32(b[8:]))
		text, _ := cutText(b[12:])
		parsed, err := hostlabels.Parse(text)
		if err != nil {
			l.problems.add("ignoring a label", "%q: %v", text, err)
			return
		}
		l.memory += 96
		lb.named = make([]pdu.NamedLabel, len(parsed))
		for i, p := range parsed {
			lb.named[i] = namedLabel(p, lb.Flags)
			l.memory += 64 + len(p.Name) + len(p.Value)
		}
		l.labels = append(l.labels, lb)
	})
}
