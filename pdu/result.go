package pdu

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// A Result has the values of metrics at one time: one ValueSet for each requested PMID,
// in that order. It also carries values to be stored.
//
//	sec      int32
//	usec     int32
//	numpmid  int32
//	sets     [numpmid]{pmid uint32; numval int32; [format int32; values [numval]value]}
//	blocks   []block
//
// where numval may be an error, format is present if numval is positive, and
//
//	value    {inst int32; word uint32}
//	block    {type uint8; len uint24; bytes []byte, padded}
//
// The word is the value itself or, in other formats, the offset of its block, in words
// from the start of the PDU. The blocks follow the last set up to the end of the PDU,
// without gaps and with one value each.
type Result struct {
	Sec, Usec int32 // from an agent: state change flags, not a time
	Sets      []ValueSet
}

// A HighResResult is a Result with a time of finer resolution and wider range.
//
//	numpmid  int32
//	sec      int64
//	nsec     int64
//	sets, blocks    // as in Result
type HighResResult struct {
	Sec, Nsec int64
	Sets      []ValueSet
}

// A ValueSet holds the values of one metric, or the reason there are none.
type ValueSet struct {
	PMID   PMID
	Err    Errno   // if negative, Values is empty
	Format int32   // FormatInsitu or another; meaningless without values
	Values []Value // one per instance
}

// Value formats (PM_VAL_*, pmapi.h). Both kinds of blocks have the same wire form.
// A program that relays values keeps their format.
const (
	FormatInsitu      = 0 // the value is the 32-bit word itself
	FormatBlock       = 1 // the value is a block further on in the PDU (PM_VAL_DPTR)
	FormatBlockStatic = 2 // the same (PM_VAL_SPTR)
)

// A Value is the value of one instance of a metric.
type Value struct {
	Inst  int32      // instance, or NoInst for a metric without instances
	Word  uint32     // the value, in format insitu
	Type  MetricType // type of Block
	Block []byte     // the value otherwise; aliases the PDU
}

// Bytes in front of the first value set.
const (
	resultHeaderLen  = pduformat.ResultHeaderLen
	highResHeaderLen = pduformat.HighResHeaderLen
)

// Bytes of a value set in front of its values, without and with any, and of a
// value.
const (
	emptySetLen = pduformat.EmptySetLen
	setLen      = pduformat.SetLen
	valueLen    = pduformat.ValueLen
)

// Type implements Message.
func (*Result) Type() Type { return TypeResult }

func (m *Result) append(e *encoder) {
	e.i32(m.Sec)
	e.i32(m.Usec)
	e.i32(int32(len(m.Sets)))
	e.sets(m.Sets)
}

func (m *Result) parse(d *decoder) {
	m.Sec = d.i32()
	m.Usec = d.i32()
	m.Sets = d.sets(m.Sets, d.count(emptySetLen))
}

// Type implements Message.
func (*HighResResult) Type() Type { return TypeHighResResult }

func (m *HighResResult) append(e *encoder) {
	e.i32(int32(len(m.Sets)))
	e.i64(m.Sec)
	e.i64(m.Nsec)
	e.sets(m.Sets)
}

func (m *HighResResult) parse(d *decoder) {
	n := d.i32()
	m.Sec = d.i64()
	m.Nsec = d.i64()
	m.Sets = d.sets(m.Sets, d.checkCount(n, emptySetLen))
}

func (e *encoder) sets(sets []ValueSet) {
	// Blocks follow the last value set. Compute where they start and end before
	// copying any: values may share a block.
	next := int64(len(e.b) - e.start)
	var blocks int64
	for i := range sets {
		vs := &sets[i]
		switch {
		case vs.Err > 0 || vs.Err < 0 && len(vs.Values) > 0:
			e.fail(ErrField)
		case len(vs.Values) == 0:
			next += emptySetLen
			continue
		}
		next += setLen + valueLen*int64(len(vs.Values))
		if vs.Format == FormatInsitu {
			continue
		}
		for j := range vs.Values {
			blocks += int64(blockSize(len(vs.Values[j].Block)))
		}
	}
	if next+blocks > math.MaxInt32 {
		e.fail(ErrTooLong)
	}
	if e.err != nil {
		return
	}
	e.b = slices.Grow(e.b, int(next+blocks)-(len(e.b)-e.start))

	for i := range sets {
		vs := &sets[i]
		e.u32(uint32(vs.PMID))
		if vs.Err < 0 {
			e.i32(int32(vs.Err))
			continue
		}
		e.i32(int32(len(vs.Values)))
		if len(vs.Values) == 0 {
			continue
		}
		e.i32(vs.Format)
		for j := range vs.Values {
			v := &vs.Values[j]
			e.i32(v.Inst)
			if vs.Format == FormatInsitu {
				e.u32(v.Word)
				continue
			}
			e.u32(uint32(next / 4))
			next += int64(blockSize(len(v.Block)))
		}
	}
	for i := range sets {
		vs := &sets[i]
		if vs.Format == FormatInsitu {
			continue
		}
		for j := range vs.Values {
			v := &vs.Values[j]
			e.blockHead(v.Type, len(v.Block))
			e.b = append(e.b, v.Block...)
			e.b = appendPad(e.b, len(v.Block))
		}
	}
}

// sets reads n value sets into the memory of old.
func (d *decoder) sets(old []ValueSet, n int) []ValueSet {
	sets := resize(old, n)
	bs := pduformat.NewBlocks(len(d.b))
	for i := range sets {
		vs := &sets[i]
		*vs = ValueSet{PMID: PMID(d.u32()), Values: vs.Values[:0]}
		n := d.i32()
		if n < 0 {
			vs.Err = Errno(n)
		}
		if n <= 0 {
			continue
		}
		vs.Format = d.i32()
		vs.Values = resize(vs.Values, d.checkCount(n, valueLen))
		for j := range vs.Values {
			v := &vs.Values[j]
			*v = Value{Inst: d.i32()}
			if vs.Format == FormatInsitu {
				v.Word = d.u32()
				continue
			}
			word := d.u32()
			if d.err != nil {
				break
			}
			if !bs.Add(d.b, word) {
				d.fail(ErrOffset)
				break
			}
			off := int(word) * 4
			n := int(binary.BigEndian.Uint32(d.b[off:]) & maxBlock)
			v.Type = MetricType(d.b[off])
			v.Block = d.b[off+4 : off+n : off+n]
		}
	}
	if d.err == nil {
		switch start, end := bs.Follow(d.off, len(d.b)); {
		case !start:
			d.fail(ErrOffset)
		case !end:
			d.fail(ErrLength)
		}
		d.skip()
	}
	return sets
}
