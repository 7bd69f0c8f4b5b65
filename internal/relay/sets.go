package relay

import (
	"encoding/binary"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// Sets are the value sets of a Result PDU, in wire form. [ResultWriter.Join] and
// [ResultWriter.Move] copy them from the agents' results into the client's without
// decoding values. Sets can be reused; then their methods do not allocate.
type Sets struct {
	wire   []byte
	starts []uint32 // of each set in wire, and where the last one ends
	words  []uint32 // where in wire offsets of value blocks are
	add    uint32   // to each of them, where it goes; set by Join
	next   int      // set to move

	ids  []pdu.PMID // in place of wire
	code pdu.Errno  // of each of ids
}

// Open makes s the value sets of the Result PDU b, which aliases them. It fails
// as CheckResult does.
func (s *Sets) Open(b []byte, ids []pdu.PMID) error {
	*s = Sets{wire: b, starts: s.starts[:0], words: s.words[:0]}
	return s.check(b, ids)
}

// Fail makes s a set for each of ids with code in place of values. It keeps ids.
func (s *Sets) Fail(ids []pdu.PMID, code pdu.Errno) {
	*s = Sets{starts: s.starts[:0], words: s.words[:0], ids: ids, code: code}
}

// Cap reports how many bytes of memory s holds for its next use.
func (s *Sets) Cap() int { return 4 * (cap(s.starts) + cap(s.words)) }

// check is CheckResult, and finds the places of s, which may be nil.
func (s *Sets) check(b []byte, ids []pdu.PMID) error {
	off, err := s.scan(b, ids)
	if err != nil {
		_, t, _ := pdu.Header(b)
		return &pdu.ParseError{Type: t, Off: off, Err: err}
	}
	return nil
}

// scan returns the number of bytes read, too.
func (s *Sets) scan(b []byte, ids []pdu.PMID) (off int, err error) {
	n, t, _ := pdu.Header(b)
	switch {
	case len(b) < pduformat.ResultHeaderLen:
		return len(b), pdu.ErrShort
	case int(n) != len(b):
		return pduformat.HeaderLen, pdu.ErrLength
	case t != pdu.TypeResult:
		return pduformat.HeaderLen, pdu.ErrUnknownType
	case int64(int32(binary.BigEndian.Uint32(b[pduformat.ResultHeaderLen-4:]))) != int64(len(ids)):
		return pduformat.ResultHeaderLen, pdu.ErrCount
	}
	off = pduformat.ResultHeaderLen
	bs := pduformat.NewBlocks(len(b))
	for _, id := range ids {
		if s != nil {
			s.starts = append(s.starts, uint32(off))
		}
		set := b[off:]
		if len(set) < pduformat.EmptySetLen {
			return off, pdu.ErrShort
		}
		if pdu.PMID(binary.BigEndian.Uint32(set)) != id {
			return off + 4, pdu.ErrPMID
		}
		n := int(int32(binary.BigEndian.Uint32(set[4:])))
		off += pduformat.EmptySetLen
		if n <= 0 {
			continue
		}
		if len(set) < pduformat.SetLen {
			return off, pdu.ErrShort
		}
		off += pduformat.SetLen - pduformat.EmptySetLen
		values := set[pduformat.SetLen:]
		if n > len(values)/pduformat.ValueLen {
			return off, pdu.ErrCount
		}
		if binary.BigEndian.Uint32(set[pduformat.EmptySetLen:]) == pdu.FormatInsitu {
			off += n * pduformat.ValueLen
			continue
		}
		for values = values[:n*pduformat.ValueLen]; len(values) >= pduformat.ValueLen; values = values[pduformat.ValueLen:] {
			if s != nil {
				s.words = append(s.words, uint32(off+4))
			}
			off += pduformat.ValueLen
			if !bs.Add(b, binary.BigEndian.Uint32(values[4:])) {
				return off, pdu.ErrOffset
			}
		}
	}
	if s != nil {
		s.starts = append(s.starts, uint32(off))
	}
	switch start, end := bs.Follow(off, len(b)); {
	case !start:
		return off, pdu.ErrOffset
	case !end:
		return off, pdu.ErrLength
	}
	return off, nil
}
