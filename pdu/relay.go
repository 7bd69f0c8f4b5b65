package pdu

import "encoding/binary"

// CheckResult checks that b is a valid Result PDU and the reply to a Fetch of ids.
// It makes the same checks as Parse, but does not allocate. A PDU without an error
// can be relayed unchanged, or after ToHighRes. All errors are of type
// [*ParseError].
//
// C pmcd differs: it counts the value sets and does not compare their PMIDs, so it
// does not notice an agent that sends the reply to an earlier request.
func CheckResult(b []byte, ids []PMID) error {
	return (*Sets)(nil).check(b, ids)
}

// check is CheckResult, and finds the places of s, which may be nil.
func (s *Sets) check(b []byte, ids []PMID) error {
	off, err := s.scan(b, ids)
	if err != nil {
		_, t, _ := Header(b)
		return &ParseError{Type: t, Off: off, Err: err}
	}
	return nil
}

// scan returns the number of bytes read, too.
func (s *Sets) scan(b []byte, ids []PMID) (off int, err error) {
	n, t, _ := Header(b)
	switch {
	case len(b) < resultHeaderLen:
		return len(b), ErrShort
	case int(n) != len(b):
		return HeaderLen, ErrLength
	case t != TypeResult:
		return HeaderLen, ErrUnknownType
	case int64(int32(binary.BigEndian.Uint32(b[resultHeaderLen-4:]))) != int64(len(ids)):
		return resultHeaderLen, ErrCount
	}
	off = resultHeaderLen
	bs := blocks{low: len(b)}
	for _, id := range ids {
		if s != nil {
			s.starts = append(s.starts, uint32(off))
		}
		set := b[off:]
		if len(set) < emptySetLen {
			return off, ErrShort
		}
		if PMID(binary.BigEndian.Uint32(set)) != id {
			return off + 4, ErrPMID
		}
		n := int(int32(binary.BigEndian.Uint32(set[4:])))
		off += emptySetLen
		if n <= 0 {
			continue
		}
		if len(set) < setLen {
			return off, ErrShort
		}
		off += setLen - emptySetLen
		values := set[setLen:]
		if n > len(values)/valueLen {
			return off, ErrCount
		}
		if binary.BigEndian.Uint32(set[emptySetLen:]) == FormatInsitu {
			off += n * valueLen
			continue
		}
		for values = values[:n*valueLen]; len(values) >= valueLen; values = values[valueLen:] {
			if s != nil {
				s.words = append(s.words, uint32(off+4))
			}
			off += valueLen
			if !bs.add(b, binary.BigEndian.Uint32(values[4:])) {
				return off, ErrOffset
			}
		}
	}
	if s != nil {
		s.starts = append(s.starts, uint32(off))
	}
	return off, bs.check(b, off)
}

// SpareHighRes is the number of bytes that ToHighRes needs before a Result PDU.
const SpareHighRes = highResHeaderLen - resultHeaderLen

// ToHighRes converts a Result PDU into a HighResResult PDU in place. The Result is
// b[SpareHighRes:]; the bytes before it may have any content. Afterwards b is the
// HighResResult. Its sender and its time are 0: see SetFrom and SetHighResTime.
//
// Call ToHighRes only if CheckResult accepts b[SpareHighRes:]. Otherwise it may
// panic.
func ToHighRes(b []byte) {
	n := binary.BigEndian.Uint32(b[SpareHighRes+resultHeaderLen-4:])
	clear(b[:highResHeaderLen])
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	binary.BigEndian.PutUint32(b[4:], uint32(TypeHighResResult))
	binary.BigEndian.PutUint32(b[HeaderLen:], n)
	// The sets stay where they are, and the PDU starts two words before.
	rebase(b[highResHeaderLen:], int(n), SpareHighRes/4)
}

// rebase adds words to the offset of every value block in the first n sets of
// b, which must be valid.
func rebase(b []byte, n int, words uint32) {
	for size := 0; n > 0; n-- {
		set := b[size:]
		numval := int(int32(binary.BigEndian.Uint32(set[4:])))
		if numval <= 0 {
			size += emptySetLen
			continue
		}
		values := set[setLen:][:numval*valueLen]
		size += setLen + len(values)
		if binary.BigEndian.Uint32(set[8:]) == FormatInsitu {
			continue
		}
		for ; len(values) >= valueLen; values = values[valueLen:] {
			p := values[4:8]
			binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)+words)
		}
	}
}

// SetResultTime sets the time of the Result PDU b.
func SetResultTime(b []byte, sec, usec int32) {
	binary.BigEndian.PutUint32(b[HeaderLen:], uint32(sec))
	binary.BigEndian.PutUint32(b[HeaderLen+4:], uint32(usec))
}

// SetHighResTime sets the time of the HighResResult PDU b.
func SetHighResTime(b []byte, sec, nsec int64) {
	binary.BigEndian.PutUint64(b[HeaderLen+4:], uint64(sec))
	binary.BigEndian.PutUint64(b[HeaderLen+12:], uint64(nsec))
}

// StateFlags returns the state changes that the Result PDU b of an agent
// reports in place of the seconds. Agents report StateLabelChange and
// StateNamesChange only; StateFlags returns other bits unchanged, and 0 if b is too
// short to be a Result.
func StateFlags(b []byte) int32 {
	if len(b) < resultHeaderLen {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[HeaderLen:]))
}
