package pdu

import "slices"

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

// Type implements Message.
func (*Profile) Type() Type { return TypeProfile }

// For returns the part of p for one instance domain. If p has several entries for
// it, the first counts.
func (p *Profile) For(indom InDom) InDomProfile {
	for i := range p.InDoms {
		if p.InDoms[i].InDom == indom {
			return p.InDoms[i]
		}
	}
	return InDomProfile{InDom: indom, Exclude: p.Exclude}
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
}
