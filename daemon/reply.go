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
	s.traceClientPDU(true, b)
	return s.push(b)
}

// writePieces sends a PDU that is in pieces.
func (s *session) writePieces(pieces [][]byte) error {
	_, t, _ := pdu.Header(pieces[0])
	s.d.counts.Out(t)
	if s.d.tracesPDUs() {
		s.traceClientPDU(true, bytes.Join(pieces, nil))
	}
	for _, b := range pieces {
		if err := s.push(b); err != nil {
			return err
		}
	}
	return nil
}

// push sends b, at the pace of the client.
func (s *session) push(b []byte) error {
	b, err := s.line.put.Write(b)
	if err != nil || len(b) == 0 {
		return err
	}
	if s.leaveLane(); s.line.conn == nil { // it is in the lobby, and was sent one PDU
		return io.ErrShortWrite
	}
	for err == nil && len(b) > 0 {
		if err := s.line.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		n := 0
		n, err = s.line.conn.Write(b[:min(len(b), 1<<20)]) // progress counts
		b = b[n:]
	}
	if err == nil {
		err = s.line.conn.SetWriteDeadline(time.Time{}) // one that has passed would stop line.put
	}
	return err
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
