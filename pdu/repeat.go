package pdu

import (
	"encoding/binary"
)

// RepeatedLen returns the length, in bytes, of the PDU that AppendRepeated makes of the same
// arguments. If it would be more than max, RepeatedLen fails with ErrTooLong; 0 is the limit
// of the protocol.
func RepeatedLen(b []byte, order []int32, max int) (int, error) {
	r, err := newRepeated(b, order, max)
	return r.total, err
}

// A repeated has the layout of a PDU that AppendRepeated makes.
type repeated struct {
	head   int // length of what precedes the first set
	count  int // offset of the number of sets
	sets   []setSpan
	blocks int // offset of the value blocks
	total  int
}

func newRepeated(b []byte, order []int32, max int) (r repeated, err error) {
	_, typ, _ := Header(b)
	r.head, r.count = resultHeaderLen, resultHeaderLen-4
	if typ == TypeHighResResult {
		r.head, r.count = highResHeaderLen, HeaderLen
	}
	r.sets = make([]setSpan, binary.BigEndian.Uint32(b[r.count:]))
	off := r.head
	for i := range r.sets {
		r.sets[i] = spanOf(b, off)
		off = r.sets[i].end
	}
	limit := maxLen
	if max > 0 {
		limit = min(limit, max)
	}
	r.blocks, r.total = r.head, r.head
	for _, i := range order {
		s := r.sets[i]
		n := s.end - s.start
		// A sum could overflow an int of 32 bits.
		if n+s.blocks > limit-r.total {
			return r, &ParseError{Type: typ, Off: r.total, Err: ErrTooLong}
		}
		r.blocks += n
		r.total += n + s.blocks
	}
	return r, nil
}

// AppendRepeated appends to dst a PDU with value sets of b, a Result or HighResResult
// PDU. It has one set for each element of order, which is the index of the set in b.
// Each set has value blocks of its own, as libpcp requires. If the PDU would have
// more than max bytes, AppendRepeated fails with ErrTooLong and copies nothing; 0 is
// the limit of the protocol.
//
// Call AppendRepeated only with a PDU that CheckResult accepts, or that was made of
// such PDUs or by a [ResultWriter], and with indexes of sets that b has. Otherwise it
// may panic.
func AppendRepeated(dst, b []byte, order []int32, max int) ([]byte, error) {
	r, err := newRepeated(b, order, max)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	if cap(dst) < start+r.total {
		// A goroutine can be preempted while make clears much memory, other than in
		// slices.Grow.
		dst = append(make([]byte, 0, start+r.total), dst...)
	}
	dst = dst[:start+r.total]
	out := dst[start:]
	copy(out, b[:r.head])
	binary.BigEndian.PutUint32(out, uint32(r.total))
	binary.BigEndian.PutUint32(out[r.count:], uint32(len(order)))
	to := r.head
	for _, i := range order {
		s := r.sets[i]
		set := out[to : to+s.end-s.start]
		to += copy(set, b[s.start:s.end])
		if s.blocks == 0 {
			continue
		}
		for values := set[setLen:]; len(values) >= valueLen; values = values[valueLen:] {
			block := blockAt(b, values)
			binary.BigEndian.PutUint32(values[4:], uint32(r.blocks/4))
			r.blocks += copy(out[r.blocks:], block)
		}
	}
	return dst, nil
}

// A setSpan is where in a PDU a value set is, and how many bytes of value blocks it
// has.
type setSpan struct{ start, end, blocks int }

// spanOf returns the span of the set at off in b.
func spanOf(b []byte, off int) setSpan {
	set := b[off:]
	n := int(int32(binary.BigEndian.Uint32(set[4:])))
	if n <= 0 {
		return setSpan{off, off + emptySetLen, 0}
	}
	s := setSpan{off, off + setLen + n*valueLen, 0}
	if binary.BigEndian.Uint32(set[emptySetLen:]) == FormatInsitu {
		return s
	}
	for values := b[off+setLen : s.end]; len(values) >= valueLen; values = values[valueLen:] {
		s.blocks += len(blockAt(b, values))
	}
	return s
}

// blockAt returns the value block of the first of values, which are in b, with its
// padding.
func blockAt(b, values []byte) []byte {
	block := b[4*binary.BigEndian.Uint32(values[4:]):]
	return block[:pad4(int(binary.BigEndian.Uint32(block)&maxBlock))]
}
