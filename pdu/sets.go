package pdu

import "encoding/binary"

// Sets walks the value sets of a Result PDU that stay in wire form. The
// daemon moves them, with [ResultWriter.Move], from the agents' results into
// the client's; values are never decoded.
type Sets struct {
	b      []byte // the whole PDU; aliased
	off    int    // where the next set starts
	left   int    // sets from there on; b has 8 bytes for each, at least
	blocks blocks // value blocks moved so far
}

// OpenSets returns the value sets of the Result PDU b. It looks at the header
// only; Move checks each set, and no more of b than that takes. CheckResult
// tells whether b is in order as a whole.
func OpenSets(b []byte) (Sets, error) {
	d := decoder{b: b}
	d.header(TypeResult)
	d.i64()
	left := d.count(emptySetLen)
	if d.err != nil {
		return Sets{}, &ParseError{Type: d.typ, Off: d.off, Err: d.err}
	}
	return Sets{b: b, off: d.off, left: left}, nil
}

// Len reports the number of value sets not yet moved.
func (s *Sets) Len() int { return s.left }

// PMID reports the metric of the next value set. Len must not be 0.
func (s *Sets) PMID() PMID { return PMID(binary.BigEndian.Uint32(s.b[s.off:])) }

// Move takes the next value set from s and appends it to w; the offsets of its
// blocks are made to fit. If it fails, s is not to be used any more, and w is
// as it was: the caller appends something else in place of the set.
func (w *ResultWriter) Move(s *Sets) error {
	b, blocks := len(w.b), len(w.blocks)
	if err := w.move(s); err != nil {
		w.b, w.blocks = w.b[:b], w.blocks[:blocks]
		return &ParseError{Type: TypeResult, Off: s.off, Err: err}
	}
	w.open = 0
	w.sets++
	return nil
}

func (w *ResultWriter) move(s *Sets) error {
	if s.left == 0 {
		return ErrShort
	}
	n := int(int32(binary.BigEndian.Uint32(s.b[s.off+4:])))
	size := emptySetLen
	if n > 0 {
		// The sets behind must have room, or PMID would look past the end.
		room := len(s.b) - s.off - emptySetLen*(s.left-1)
		if n > (room-setLen)/valueLen {
			return ErrCount
		}
		size = setLen + valueLen*n
	}
	set := len(w.b)
	w.b = append(w.b, s.b[s.off:s.off+size]...)
	if n > 0 && binary.BigEndian.Uint32(w.b[set+8:]) != FormatInsitu {
		for v := w.b[set+setLen:]; len(v) > 0; v = v[valueLen:] {
			word := uint32(len(w.blocks) / 4)
			off, n, err := s.blocks.add(s.b, binary.BigEndian.Uint32(v[4:]))
			if err != nil {
				return err
			}
			binary.BigEndian.PutUint32(v[4:], word)
			w.blocks = append(w.blocks, s.b[off:off+n]...)
			w.blocks = appendPad(w.blocks, n)
		}
	}
	s.off += size
	s.left--
	return nil
}
