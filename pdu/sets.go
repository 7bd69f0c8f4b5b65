package pdu

// Sets are the value sets of a Result PDU, in wire form. The daemon moves them
// from the agents' results into the client's ([ResultWriter.Join] and
// [ResultWriter.Move]); values are never decoded.
type Sets struct {
	b      []byte // from the next set on; aliases the PDU
	blocks []byte // the value blocks
	low    uint32 // where they begin, in words from the start of the PDU
	add    uint32 // to the offset of each, where it goes; set by Join

	ids  []PMID // in place of b
	code Errno  // of each of ids
}

// OpenSets returns the value sets of the Result PDU b, which aliases them. It
// fails as CheckResult does.
func OpenSets(b []byte, ids []PMID) (Sets, error) {
	end, err := checkResult(b, ids)
	if err != nil {
		_, t, _ := Header(b)
		return Sets{}, &ParseError{Type: t, Off: end, Err: err}
	}
	return Sets{b: b[resultHeaderLen:end], blocks: b[end:], low: uint32(end / 4)}, nil
}

// FailedSets returns, for each of ids, a set with code in place of values. It
// keeps ids.
func FailedSets(ids []PMID, code Errno) Sets { return Sets{ids: ids, code: code} }

// Join says that all sets of s will be moved to w. It comes after Reset and
// before the first set; then Finish fails if there are others than those of all
// Joins, or not all. s must not be copied from then on, and what it aliases must
// stay as it is until Finish.
//
// The value blocks of one result stay together, so they are copied at once, and
// every offset is final when its set is moved.
func (w *ResultWriter) Join(s *Sets) {
	s.add = uint32(w.tailsLen/4) - s.low
	w.joined += len(s.b) + emptySetLen*len(s.ids)
	w.tailsLen += len(s.blocks)
	w.tails = append(w.tails, s.blocks)
}

// Move takes the next n value sets from s, which must have them, and appends
// them to w, which must have joined s. It writes to the PDU that s is of.
func (w *ResultWriter) Move(s *Sets, n int) {
	if s.ids != nil {
		for _, id := range s.ids[:n] {
			w.Fail(id, s.code)
		}
		s.ids = s.ids[n:]
		return
	}
	size := rebase(s.b, n, s.add+uint32((w.body-w.start+w.joined)/4))
	w.b = append(w.b, s.b[:size]...)
	w.sets += n
	w.open = 0
	s.b = s.b[size:]
}
