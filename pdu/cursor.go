package pdu

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// A decoder reads one PDU. It keeps the first failure in err. After that all reads
// return zero, so parse methods read one field after the other without checks, and
// done returns err at the end.
type decoder struct {
	b   []byte // the whole PDU
	off int    // next byte to read
	err error
	typ Type // of the PDU, once it was read
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// header reads the header of a PDU that must be of type want.
func (d *decoder) header(want Type) (from int32) {
	n := d.i32()
	d.typ = Type(d.i32())
	from = d.i32()
	switch {
	case d.err != nil:
	case int(n) != len(d.b):
		d.fail(ErrLength)
	case d.typ != want:
		d.fail(ErrUnknownType)
	}
	return from
}

// done returns the result of ParseInto. Bytes that were not read are an error.
func (d *decoder) done(from int32) (int32, error) {
	if d.err == nil && d.off < len(d.b) {
		d.fail(ErrLength)
	}
	if d.err != nil {
		return 0, &ParseError{Type: d.typ, Off: d.off, Err: d.err}
	}
	return from, nil
}

// left returns the number of bytes that have not been read.
func (d *decoder) left() int { return len(d.b) - d.off }

// skip skips the rest of the PDU.
func (d *decoder) skip() {
	if d.err == nil {
		d.off = len(d.b)
	}
}

func (d *decoder) u32() uint32 {
	if d.err != nil {
		return 0
	}
	if d.left() < 4 {
		d.fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint32(d.b[d.off:])
	d.off += 4
	return v
}

func (d *decoder) i32() int32 { return int32(d.u32()) }

func (d *decoder) i64() int64 {
	hi := int64(d.i32())
	return hi<<32 | int64(d.u32())
}

// count reads a number of elements that take at least size bytes each. It
// refuses a number that the rest of the PDU cannot hold, so a caller may pass
// the result to make.
func (d *decoder) count(size int) int { return d.checkCount(d.i32(), size) }

func (d *decoder) checkCount(n int32, size int) int {
	if d.err != nil {
		return 0
	}
	if n < 0 || int(n) > d.left()/size {
		d.fail(ErrCount)
		return 0
	}
	return int(n)
}

// bytes returns the next n bytes. They alias the PDU, and an append copies them. n must
// be a result of count or have been checked otherwise.
func (d *decoder) bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > d.left() {
		d.fail(ErrShort)
		return nil
	}
	b := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// str reads a string of n bytes and the padding after it. Padding may have any
// content.
func (d *decoder) str(n int) string {
	s := string(d.bytes(n))
	d.bytes(pad4(n) - n)
	return s
}

// pmids reads n PMIDs into a new slice.
func (d *decoder) pmids(n int) []PMID {
	ids := alloc[PMID](n)
	for i := range ids {
		ids[i] = PMID(d.u32())
	}
	return ids
}

// alloc returns a slice of n elements, or nil if n is 0. So a decoded message is equal
// to a literal without the slice.
func alloc[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

// resize returns a slice of n elements that has the memory of s, if that suffices, or nil if
// n is 0 and s is nil. Elements keep what they had.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return slices.Grow(s[:cap(s)], n-cap(s))[:n]
}

// pad4 rounds n up to whole words.
func pad4(n int) int { return pduformat.Pad4(n) }

// An encoder appends one PDU to b. Like a decoder, it keeps the first failure.
type encoder struct {
	b     []byte
	start int // where this PDU starts in b
	err   error
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// header appends the header of a PDU, whose length done sets.
func (e *encoder) header(t Type, from int32) {
	e.start = len(e.b)
	e.u32(0)
	e.u32(uint32(t))
	e.u32(uint32(from))
}

// done returns the result of Append, which got b.
func (e *encoder) done(b []byte, t Type) ([]byte, error) {
	n := len(e.b) - e.start
	if n > math.MaxInt32 {
		e.fail(ErrTooLong)
	}
	if e.err != nil {
		return b, &ParseError{Type: t, Off: n, Err: e.err}
	}
	binary.BigEndian.PutUint32(e.b[e.start:], uint32(n))
	return e.b, nil
}

func (e *encoder) u32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) i32(v int32)  { e.u32(uint32(v)) }
func (e *encoder) i64(v int64)  { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.i32(1)
	} else {
		e.i32(0)
	}
}

// str appends s and its padding, without its length.
func (e *encoder) str(s string) {
	e.b = append(e.b, s...)
	e.b = appendPad(e.b, len(s))
}

func (e *encoder) pmids(ids []PMID) {
	for _, id := range ids {
		e.u32(uint32(id))
	}
}

// appendPad appends the padding of n bytes to whole words, with the bytes that libpcp
// uses.
func appendPad(b []byte, n int) []byte { return append(b, "~~~"[:pad4(n)-n]...) }
