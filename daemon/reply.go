package daemon

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// writeTimeout is how long a client may take nothing of a reply. It holds up
// nobody else, but the reply takes memory.
const writeTimeout = time.Minute

// write sends b.
func (s *session) write(b []byte) error {
	_, t, _ := pdu.Header(b)
	s.d.counts.Out(t)
	s.tapped(true, b)
	b, err := s.line.put.Write(b)
	for err == nil && len(b) > 0 {
		n := 0
		n, err = s.writeSlowly(b[:min(len(b), progress)])
		b = b[n:]
	}
	return err
}

// progress is how many bytes a client must take in writeTimeout.
const progress = 1 << 20

// writeSlowly waits until b is written.
func (s *session) writeSlowly(b []byte) (int, error) {
	if s.leaveLane(); s.line.conn == nil { // it is in the lobby, and was sent one PDU
		return 0, io.ErrShortWrite
	}
	if err := s.line.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := s.line.conn.Write(b)
	if err == nil {
		err = s.line.conn.SetWriteDeadline(time.Time{}) // one that has passed would stop line.put
	}
	return n, err
}

// writePieces sends a PDU that is in pieces.
func (s *session) writePieces(pieces [][]byte) error {
	_, t, _ := pdu.Header(pieces[0])
	s.d.counts.Out(t)
	if s.d.tapping() {
		s.tapped(true, bytes.Join(pieces, nil))
	}
	for len(pieces) > 0 {
		n, err := s.line.sendPieces(pieces)
		if err != nil {
			return err
		}
		if pieces = skip(pieces, n); n > 0 || len(pieces) == 0 {
			continue
		}
		b := pieces[0][:min(len(pieces[0]), progress)]
		if n, err = s.writeSlowly(b); err != nil {
			return err
		}
		pieces = skip(pieces, n)
	}
	return nil
}

// skip returns what of pieces follows n bytes.
func skip(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// reply sends m as the answer.
func (s *session) reply(w *work, m pdu.Message) error {
	b, err := pdu.Append(w.out[:0], 0, m)
	if err != nil {
		return s.fail(w, errnoOf(err))
	}
	w.out = b
	return s.write(b)
}

// fail sends an error as the answer.
func (s *session) fail(w *work, code pdu.Errno) error {
	w.out = appendError(w.out[:0], code)
	return s.write(w.out)
}

// appendError appends an ERROR PDU.
func appendError(b []byte, code pdu.Errno) []byte {
	b = binary.BigEndian.AppendUint32(b, pdu.HeaderLen+4)
	b = binary.BigEndian.AppendUint32(b, uint32(pdu.TypeError))
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}
