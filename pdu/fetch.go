package pdu

import (
	"encoding/binary"
	"slices"
)

// A Fetch requests the current values of metrics, with the profile that was sent for a
// context. The reply is a Result.
//
//	context  int32
//	when     [2]int32         // 0; a time, once
//	numpmid  int32            // at least 1
//	pmids    [numpmid]uint32
type Fetch struct {
	Context int32  // the client's number for the context
	PMIDs   []PMID // duplicates are allowed
}

// A HighResFetch is a Fetch that requests a HighResResult.
type HighResFetch struct {
	Context int32
	PMIDs   []PMID
}

// Type implements Message.
func (*Fetch) Type() Type { return TypeFetch }

func (m *Fetch) append(e *encoder) { e.fetch(m.Context, m.PMIDs) }
func (m *Fetch) parse(d *decoder)  { m.Context, m.PMIDs = d.fetch(m.PMIDs) }

// Type implements Message.
func (*HighResFetch) Type() Type { return TypeHighResFetch }

func (m *HighResFetch) append(e *encoder) { e.fetch(m.Context, m.PMIDs) }
func (m *HighResFetch) parse(d *decoder)  { m.Context, m.PMIDs = d.fetch(m.PMIDs) }

func (e *encoder) fetch(context int32, ids []PMID) {
	if len(ids) == 0 {
		e.fail(ErrCount)
	}
	e.i32(context)
	e.i64(0)
	e.i32(int32(len(ids)))
	e.pmids(ids)
}

// fetch reads the PMIDs into the memory of ids if they fit.
func (d *decoder) fetch(ids []PMID) (context int32, _ []PMID) {
	context = d.i32()
	d.i64()
	n := d.count(4)
	if n == 0 {
		d.fail(ErrCount)
	}
	ids = slices.Grow(ids[:0], n)[:n]
	for i, b := 0, d.bytes(4*n); i < n; i++ {
		ids[i] = PMID(binary.BigEndian.Uint32(b[4*i:]))
	}
	return context, ids
}
