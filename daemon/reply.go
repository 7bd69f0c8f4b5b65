package daemon

import (
	"bytes"
	"encoding/binary"

	"github.com/gopcp/pmcd/pdu"
)

// countIn counts a PDU of the client's, and shows it in traces.
func (s *session) countIn(b []byte) {
	_, t, _ := pdu.Header(b)
	s.d.counts.In(t)
	s.traceClientPDU(false, b)
}

// countOut counts a PDU that is sent to the client, and shows it in traces.
func (s *session) countOut(b []byte) {
	_, t, _ := pdu.Header(b)
	s.d.counts.Out(t)
	s.traceClientPDU(true, b)
}

// write sends b.
func (s *session) write(b []byte) error {
	s.countOut(b)
	_, err := s.conn.Write(b)
	return err
}

// writePieces sends a PDU that is in pieces.
func (s *session) writePieces(pieces [][]byte) error {
	_, t, _ := pdu.Header(pieces[0])
	s.d.counts.Out(t)
	if s.d.tracesPDUs() {
		s.traceClientPDU(true, bytes.Join(pieces, nil))
	}
	for _, b := range pieces {
		if _, err := s.conn.Write(b); err != nil {
			return err
		}
	}
	return nil
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
