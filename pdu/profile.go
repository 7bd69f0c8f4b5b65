package pdu

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// A Profile selects the instances that later fetches in a context return. It
// has no reply.
//
//	context  int32    // 0 or more
//	state    int32    // 1 to exclude
//	numprof  int32
//	pad      int32
//	profs    [numprof]{indom uint32; state, numinst, pad int32}
//	insts    []int32  // of all profs, in turn
//
// For an instance domain with an entry in InDoms, only that entry counts. For all
// others, Exclude counts.
type Profile struct {
	Context int32 // the client's number for the context
	Exclude bool  // no instances, instead of all
	InDoms  []InDomProfile

	// If Parse found many InDoms, a hash table of them: their indices plus 1, and 0
	// for unused elements. Its length is a power of 2.
	table []uint32
}

// An InDomProfile is the part of a Profile for one instance domain. With Exclude it
// selects Insts only, and otherwise all instances except Insts.
type InDomProfile struct {
	InDom   InDom
	Exclude bool
	Insts   []int32 // exceptions to Exclude

	sorted []int32 // Insts in ascending order, if Parse found many
}

// manyInsts is the number of instances from which a binary search is faster than a
// linear one. An agent calls Includes for each of its instances, and a profile of 64
// KiB can have 16000.
const manyInsts = 16

// manyInDoms is the number of instance domains from which a hash table is faster than a
// linear search. A profile of 64 KiB can have 4094, and a fetch can be for 16000 metrics.
const manyInDoms = 32

// The seed makes it impossible to choose instance domains that have the same hash.
var inDomSeed = maphash.MakeSeed()

// Type implements Message.
func (*Profile) Type() Type { return TypeProfile }

// For returns the part of p for one instance domain. If p has several entries for
// it, the first counts.
func (p *Profile) For(indom InDom) InDomProfile {
	if p.table != nil {
		if i := p.table[p.slot(indom)]; i != 0 {
			return p.InDoms[i-1]
		}
		return InDomProfile{InDom: indom, Exclude: p.Exclude}
	}
	for i := range p.InDoms {
		if p.InDoms[i].InDom == indom {
			return p.InDoms[i]
		}
	}
	return InDomProfile{InDom: indom, Exclude: p.Exclude}
}

// slot returns the index of an instance domain in the table, or the index of the unused
// element where it would be.
func (p *Profile) slot(indom InDom) uint64 {
	last := uint64(len(p.table) - 1)
	for h := maphash.Comparable(inDomSeed, indom) & last; ; h = (h + 1) & last {
		if i := p.table[h]; i == 0 || p.InDoms[i-1].InDom == indom {
			return h
		}
	}
}

// makeTable makes the table. Of several entries for an instance domain it has the first.
func (p *Profile) makeTable() {
	p.table = make([]uint32, 1<<bits.Len(uint(2*len(p.InDoms)-1))) // at least half of it is unused
	for i := range p.InDoms {
		if h := p.slot(p.InDoms[i].InDom); p.table[h] == 0 {
			p.table[h] = uint32(i + 1)
		}
	}
}

// Includes reports whether p selects an instance of an instance domain. For many
// instances of one domain, call For once and use the result.
func (p *Profile) Includes(indom InDom, inst int32) bool { return p.For(indom).Includes(inst) }

// Includes reports whether p selects an instance.
func (p InDomProfile) Includes(inst int32) bool {
	var found bool
	if p.sorted != nil {
		_, found = slices.BinarySearch(p.sorted, inst)
	} else {
		found = slices.Contains(p.Insts, inst)
	}
	return found == p.Exclude
}

// SameInstances reports whether p and q have the same entries, in the same order. Then
// they select the same instances.
func (p *Profile) SameInstances(q *Profile) bool {
	return p == q || p.Exclude == q.Exclude && slices.EqualFunc(p.InDoms, q.InDoms, func(a, b InDomProfile) bool {
		return a.InDom == b.InDom && a.Exclude == b.Exclude && slices.Equal(a.Insts, b.Insts)
	})
}

// All reports whether p selects every instance.
func (p InDomProfile) All() bool { return !p.Exclude && len(p.Insts) == 0 }

func (p *Profile) append(e *encoder) {
	if p.Context < 0 {
		e.fail(ErrField)
	}
	e.i32(p.Context)
	e.bool(p.Exclude)
	e.i32(int32(len(p.InDoms)))
	e.i32(0)
	for _, ip := range p.InDoms {
		e.u32(uint32(ip.InDom))
		e.bool(ip.Exclude)
		e.i32(int32(len(ip.Insts)))
		e.i32(0)
	}
	for _, ip := range p.InDoms {
		for _, inst := range ip.Insts {
			e.i32(inst)
		}
	}
}

func (p *Profile) parse(d *decoder) {
	*p = Profile{Context: d.i32()}
	if p.Context < 0 {
		d.fail(ErrField)
	}
	p.Exclude = d.i32() != 0
	n := d.i32()
	if n == 0 {
		d.skip() // even the pad word may be missing
		return
	}
	d.i32()
	p.InDoms = alloc[InDomProfile](d.checkCount(n, 16))
	if d.err != nil {
		return
	}
	// The instances of all entries follow the entries.
	all := alloc[int32]((d.left() - 16*len(p.InDoms)) / 4)
	rest := all
	for i := range p.InDoms {
		ip := &p.InDoms[i]
		ip.InDom = InDom(d.u32())
		ip.Exclude = d.i32() != 0
		n := int(d.i32())
		if n < 0 || n > len(rest) {
			d.fail(ErrCount)
			return
		}
		d.i32()
		if n > 0 {
			ip.Insts, rest = rest[:n:n], rest[n:]
		}
	}
	for i := range all[:len(all)-len(rest)] {
		all[i] = d.i32()
	}
	for i := range p.InDoms {
		if ip := &p.InDoms[i]; len(ip.Insts) >= manyInsts {
			ip.sorted = slices.Clone(ip.Insts)
			slices.Sort(ip.sorted)
		}
	}
	if len(p.InDoms) >= manyInDoms {
		p.makeTable()
	}
}
