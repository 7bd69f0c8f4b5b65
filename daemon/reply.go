package daemon

import (
	"bytes"
	"encoding/binary"
	"net"
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
	b, err := s.put.Write(b)
	for err == nil && len(b) > 0 {
		if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		n := 0
		n, err = s.conn.Write(b[:min(len(b), 1<<20)]) // progress counts
		b = b[n:]
		if err == nil && len(b) == 0 {
			err = s.conn.SetWriteDeadline(time.Time{}) // one that has passed would stop put
		}
	}
	return err
}

// writePieces sends a PDU that is in pieces.
func (s *session) writePieces(pieces [][]byte) error {
	_, t, _ := pdu.Header(pieces[0])
	s.d.counts.Out(t)
	if s.d.tapping() {
		s.tapped(true, bytes.Join(pieces, nil))
	}
	const most = 1 << 20 // bytes of a write: progress counts
	for len(pieces) > 0 {
		if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		var some net.Buffers
		for left := most; len(pieces) > 0 && left > 0; {
			n := min(len(pieces[0]), left)
			some = append(some, pieces[0][:n])
			left -= n
			if pieces[0] = pieces[0][n:]; len(pieces[0]) == 0 {
				pieces = pieces[1:]
			}
		}
		if _, err := some.WriteTo(s.conn); err != nil {
			return err
		}
	}
	return s.conn.SetWriteDeadline(time.Time{})
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
