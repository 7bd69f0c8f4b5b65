package pdu

import (
	"math"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// Flags of an event record (PM_EVENT_FLAG_*, pmapi.h).
const (
	EventPoint  = 1
	EventStart  = 2
	EventEnd    = 4
	EventID     = 8
	EventParent = 16
	EventMissed = 1 << 31 // records were lost: Missed of them
)

// An EventRecord is one record of an event metric's value.
type EventRecord struct {
	Sec    int64
	Nsec   int64 // of MetricEvent in whole microseconds
	Flags  uint32
	Missed int32 // with EventMissed, which has no Params
	Params []EventParam
}

// An EventParam is one parameter of an EventRecord.
type EventParam struct {
	PMID  PMID
	Type  MetricType
	Value []byte // in wire order; a string has no NUL; aliases the block
}

// ParseEvents decodes the value block of a metric of type MetricEvent or
// MetricHighResEvent, which is
//
//	nrecords  uint32
//	records   [nrecords]{
//	    sec      int32    // int64 in HIGHRES_EVENT
//	    usec     int32    // nsec int64 in HIGHRES_EVENT
//	    flags    uint32
//	    nparams  int32    // or the number of missed records
//	    params   [nparams]{
//	        pmid   uint32
//	        type   uint8
//	        plen   uint24 // of type, plen and value, in bytes
//	        value  []byte // padded
//	    }
//	}
//
// Errors are of type [*ParseError] and count bytes from the start of block.
func ParseEvents(typ MetricType, block []byte) ([]EventRecord, error) {
	d := decoder{b: block, typ: TypeResult}
	size := 16
	if typ == MetricHighResEvent {
		size = 24
	} else if typ != MetricEvent {
		d.fail(ErrField)
	}
	recs := alloc[EventRecord](d.count(size))
	for i := range recs {
		r := &recs[i]
		if typ == MetricHighResEvent {
			r.Sec, r.Nsec = d.i64(), d.i64()
		} else {
			r.Sec, r.Nsec = int64(d.i32()), int64(d.i32())*1000
		}
		r.Flags = d.u32()
		if r.Flags&EventMissed != 0 {
			if r.Missed = d.i32(); r.Missed < 0 {
				d.fail(ErrCount)
			}
			continue
		}
		r.Params = alloc[EventParam](d.count(8))
		for j := range r.Params {
			p := &r.Params[j]
			p.PMID = PMID(d.u32())
			h := d.u32()
			p.Type = MetricType(h >> 24)
			n := int(h&0xffffff) - 4
			if n < 0 {
				d.fail(ErrCount)
				break
			}
			p.Value = d.bytes(n)
			d.bytes(pad4(n) - n)
		}
	}
	if _, err := d.done(0); err != nil {
		return nil, err
	}
	return recs, nil
}

// AppendEvents appends the value block of a metric of type MetricEvent or
// MetricHighResEvent to b: the inverse of ParseEvents, except that control characters in
// strings, other than tabs and newlines, are escaped: see [EscapeControls]. If it fails it
// returns b as it was.
func AppendEvents(b []byte, typ MetricType, recs []EventRecord) ([]byte, error) {
	e := encoder{b: b, start: len(b)}
	if typ != MetricEvent && typ != MetricHighResEvent {
		e.fail(ErrField)
	}
	e.i32(int32(len(recs)))
	for i := range recs {
		r := &recs[i]
		if typ == MetricHighResEvent {
			e.i64(r.Sec)
			e.i64(r.Nsec)
		} else {
			usec := r.Nsec / 1000
			if r.Sec != int64(int32(r.Sec)) || usec != int64(int32(usec)) {
				e.fail(ErrField)
			}
			e.i32(int32(r.Sec))
			e.i32(int32(usec))
		}
		e.u32(r.Flags)
		if r.Flags&EventMissed != 0 {
			if r.Missed < 0 || len(r.Params) > 0 {
				e.fail(ErrField)
			}
			e.i32(r.Missed)
			continue
		}
		e.i32(int32(len(r.Params)))
		for _, p := range r.Params {
			v := p.Value
			if p.Type == MetricString {
				v = escapeBlock(v)
			}
			e.u32(uint32(p.PMID))
			e.blockHead(p.Type, len(v))
			e.b = append(e.b, v...)
			e.b = appendPad(e.b, len(v))
		}
	}
	n := len(e.b) - e.start
	if n+4 > maxBlock {
		e.fail(ErrTooLong)
	}
	if e.err != nil {
		return b, &ParseError{Type: TypeResult, Off: min(n, math.MaxInt32), Err: e.err}
	}
	return e.b, nil
}

// maxBlock is the largest value block or event parameter, in bytes. Its length has 24
// bits, and includes the word with the length.
const maxBlock = pduformat.MaxBlock

// blockHead appends the first word of a block whose value has n bytes.
func (e *encoder) blockHead(typ MetricType, n int) {
	h, err := blockHead(typ, n)
	if err != nil {
		e.fail(err)
	}
	e.u32(h)
}

func blockHead(typ MetricType, n int) (uint32, error) {
	switch {
	case typ < 0 || typ > 0xff:
		return 0, ErrField
	case n > maxBlock-4:
		return 0, ErrTooLong
	}
	return uint32(typ)<<24 | uint32(n+4), nil
}

// blockSize returns the size in a PDU of a block whose value has n bytes.
func blockSize(n int) int { return 4 + pad4(n) }
