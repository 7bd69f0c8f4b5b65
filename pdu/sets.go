package pdu

import "encoding/binary"

// Sets walks the value sets of a Result PDU that stay in wire form. The
// daemon moves them, with [ResultWriter.Move], from the agents' results into
// the client's; values are never decoded.
type Sets struct {
	b   []byte // from the next set on
	pdu []byte // all of it; aliased
}

// OpenSets returns the value sets of the Result PDU b, with which CheckResult
// must have found no fault. Otherwise Move may panic.
func OpenSets(b []byte) Sets { return Sets{b: b[resultHeaderLen:], pdu: b} }

// Move takes the next value set from s, which must have one, and appends it to
// w; the offsets of its blocks are made to fit. There are as many as metrics
// were asked for.
func (w *ResultWriter) Move(s *Sets) {
	w.open = 0
	w.sets++
	n := int(int32(binary.BigEndian.Uint32(s.b[4:])))
	if n <= 0 {
		w.b = append(w.b, s.b[:emptySetLen]...)
		s.b = s.b[emptySetLen:]
		return
	}
	size := setLen + valueLen*n
	set := s.b[:size]
	s.b = s.b[size:]
	values := len(w.b) + setLen
	w.b = append(w.b, set...)
	if binary.BigEndian.Uint32(set[8:]) == FormatInsitu {
		return
	}
	for v := w.b[values:]; len(v) >= valueLen; v = v[valueLen:] {
		block := s.pdu[4*int(binary.BigEndian.Uint32(v[4:])):]
		binary.BigEndian.PutUint32(v[4:], uint32(len(w.blocks)/4))
		w.blocks = append(w.blocks, block[:pad4(int(binary.BigEndian.Uint32(block)&maxBlock))]...)
	}
}
