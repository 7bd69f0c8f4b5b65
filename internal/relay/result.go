package relay

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// A ResultWriter appends one Result or HighResResult PDU of the value sets of several agents to a
// buffer. If it is used again, its methods do not allocate. They return no error: Finish returns
// the first failure.
type ResultWriter struct {
	b     []byte // ends with the PDU being written
	start int    // where in b that begins
	body  int    // where in b its value sets begin
	sets  int    // value sets so far
	max   int    // bytes, or 0
	err   error

	joined   int      // bytes of the sets that will be moved
	tails    [][]byte // their value blocks
	tailsLen int      // bytes of all of them
}

// Reset starts a Result PDU sent by from at the end of b. A PDU that w has not
// finished is lost. The bytes before len(b) do not change.
func (w *ResultWriter) Reset(b []byte, from int32) {
	w.reset(b, pdu.TypeResult, from, pduformat.ResultHeaderLen)
}

// ResetHighRes is Reset for a HighResResult PDU.
func (w *ResultWriter) ResetHighRes(b []byte, from int32) {
	w.reset(b, pdu.TypeHighResResult, from, pduformat.HighResHeaderLen)
}

func (w *ResultWriter) reset(b []byte, t pdu.Type, from int32, headerLen int) {
	var zero [pduformat.HighResHeaderLen]byte
	w.start = len(b)
	w.b = append(b, zero[:headerLen]...)
	w.body = len(w.b)
	binary.BigEndian.PutUint32(w.b[w.start+4:], uint32(t))
	SetFrom(w.b[w.start:], from)
	w.sets, w.err = 0, nil
	w.forget()
}

// forget lets go of what was joined.
func (w *ResultWriter) forget() {
	clear(w.tails)
	w.joined, w.tails, w.tailsLen = 0, w.tails[:0], 0
}

// Cap reports how many bytes of memory w holds for its next use.
func (w *ResultWriter) Cap() int { return cap(w.b) }

// Limit sets the longest PDU in bytes. A longer one fails with pdu.ErrTooLong before it
// takes more memory. 0 is the limit of the protocol.
func (w *ResultWriter) Limit(max int) { w.max = max }

// Fail appends a value set with code, which is not positive, in place of values. It is not
// used with Join.
func (w *ResultWriter) Fail(id pdu.PMID, code pdu.Errno) {
	if code > 0 {
		w.err = cmp.Or(w.err, pdu.ErrField)
		return
	}
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(id))
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(code))
	w.sets++
}

// Join prepares w for moving all sets of s. Call it after Reset and before the
// first set. Finish then fails unless exactly the sets of all Joins were moved.
// After Join, s must not be copied, and the PDU that it aliases must not change
// until Finish.
//
// Finish copies the value blocks of one result together, so every offset is final
// when its set is moved.
func (w *ResultWriter) Join(s *Sets) {
	w.joined += pduformat.EmptySetLen * len(s.ids)
	if last := len(s.starts) - 1; last >= 0 {
		end := int(s.starts[last])
		s.add = uint32((w.tailsLen - end) / 4)
		w.joined += end - pduformat.ResultHeaderLen
		w.tailsLen += len(s.wire) - end
		w.tails = append(w.tails, s.wire[end:])
	}
	if total := w.body - w.start + w.joined + w.tailsLen; w.max > 0 && total > w.max {
		w.err = cmp.Or(w.err, pdu.ErrTooLong)
	}
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
		p := s.wire[at:]
		binary.BigEndian.PutUint32(p, binary.BigEndian.Uint32(p)+add)
	}
	s.words = s.words[:0] // once
	w.b = append(w.b, s.wire[s.starts[first]:s.starts[s.next]]...)
	w.sets += n
}

// Finish returns the buffer given to Reset with the PDU at its end. After a
// failure it returns the buffer unchanged and the error.
func (w *ResultWriter) Finish() ([]byte, error) {
	defer w.forget()
	n := len(w.b) - w.start
	typ, count := pdu.TypeResult, w.b[w.start+pduformat.ResultHeaderLen-4:]
	if w.body-w.start == pduformat.HighResHeaderLen {
		typ, count = pdu.TypeHighResResult, w.b[w.start+pduformat.HeaderLen:]
	}
	total := int64(n) + int64(w.tailsLen)
	switch {
	case w.err != nil:
	case total > math.MaxInt32 || w.max > 0 && total > int64(w.max):
		w.err = pdu.ErrTooLong
	case w.joined > 0 && w.joined != len(w.b)-w.body:
		w.err = pdu.ErrLength
	}
	if w.err != nil {
		return w.b[:w.start], &pdu.ParseError{Type: typ, Off: n, Err: w.err}
	}
	binary.BigEndian.PutUint32(w.b[w.start:], uint32(total))
	binary.BigEndian.PutUint32(count, uint32(w.sets))
	w.b = slices.Grow(w.b, w.tailsLen)
	for _, t := range w.tails {
		w.b = append(w.b, t...)
	}
	return w.b, nil
}
