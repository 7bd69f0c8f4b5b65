package pdu

import "encoding/binary"

// Sets are the value sets of a Result PDU, in wire form. [ResultWriter.Join] and
// [ResultWriter.Move] copy them from the agents' results into the client's without
// decoding values. Sets can be reused; then their methods do not allocate.
type Sets struct {
	pdu    []byte
	starts []uint32 // of each set in pdu, and where the last one ends
	words  []uint32 // where in pdu offsets of value blocks are
	add    uint32   // to each of them, where it goes; set by Join
	next   int      // set to move

	ids  []PMID // in place of pdu
	code Errno  // of each of ids
}

// Open makes s the value sets of the Result PDU b, which aliases them. It fails
// as CheckResult does.
func (s *Sets) Open(b []byte, ids []PMID) error {
	*s = Sets{pdu: b, starts: s.starts[:0], words: s.words[:0]}
	return s.check(b, ids)
}

// Fail makes s a set for each of ids with code in place of values. It keeps ids.
func (s *Sets) Fail(ids []PMID, code Errno) {
	*s = Sets{starts: s.starts[:0], words: s.words[:0], ids: ids, code: code}
}

// Cap reports how many bytes of memory s holds for its next use.
func (s *Sets) Cap() int { return 4 * (cap(s.starts) + cap(s.words)) }

// Join prepares w for moving all sets of s. Call it after Reset and before the
// first set. Finish then fails unless exactly the sets of all Joins were moved.
// After Join, s must not be copied, and the PDU that it aliases must not change
// until Finish.
//
// Finish copies the value blocks of one result together, so every offset is final
// when its set is moved.
func (w *ResultWriter) Join(s *Sets) {
	w.joined += emptySetLen * len(s.ids)
	if last := len(s.starts) - 1; last >= 0 {
		end := int(s.starts[last])
		s.add = uint32((w.tailsLen - end) / 4)
		w.joined += end - resultHeaderLen
		w.tailsLen += len(s.pdu) - end
		w.tails = append(w.tails, s.pdu[end:])
	}
	w.full()
}

// Move appends the next n value sets of s to w. It may panic unless w has joined s
// and s has n sets left. Move changes the PDU that s aliases. To move 0 sets does nothing,
// also if s has none.
func (w *ResultWriter) Move(s *Sets, n int) {
	if n == 0 {
		return
	}
	first := s.next
	s.next += n
	if w.err != nil {
		return
	}
	if s.ids != nil {
		for _, id := range s.ids[first:s.next] {
			w.Fail(id, s.code)
		}
		return
	}
	add := s.add + uint32((w.body-w.start+w.joined)/4)
	for _, at := range s.words {
		p := s.pdu[at:]
		binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)+add)
	}
	s.words = s.words[:0] // once
	w.b = append(w.b, s.pdu[s.starts[first]:s.starts[s.next]]...)
	w.sets += n
	w.open = 0
}
