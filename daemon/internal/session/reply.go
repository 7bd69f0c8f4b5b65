package session

import (
	"bytes"
	"encoding/binary"

	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/repeated"
	"github.com/gopcp/pmcd/pdu"
)

// countIn counts a PDU of the client's, and shows it in traces.
func (s *session) countIn(b []byte) {
	_, t, _ := pdu.Header(b)
	s.srv.cfg.Counts.In(t)
	s.traceClientPDU(false, b)
}

// countOut counts a PDU that is sent to the client, and shows it in traces.
func (s *session) countOut(b []byte) {
	_, t, _ := pdu.Header(b)
	s.srv.cfg.Counts.Out(t)
	s.traceClientPDU(true, b)
}

// write sends b, the answer to a request.
func (r *request) write(b []byte) error {
	r.s.countOut(b)
	_, err := r.s.stream.Write(b)
	return err
}

// maxJoined is the longest PDU, in bytes, whose pieces are joined to be written at once.
const maxJoined = 64 << 10

// writePieces is write for a PDU that is in pieces.
func (r *request) writePieces(pieces [][]byte) error {
	n, t, _ := pdu.Header(pieces[0])
	r.s.srv.cfg.Counts.Out(t)
	if r.s.srv.tracesPDUs() {
		r.s.traceClientPDU(true, bytes.Join(pieces, nil))
	}
	if _, secure := r.s.stream.(*conn.Secure); secure && n <= maxJoined { // each piece would be a record
		pieces = [][]byte{bytes.Join(pieces, nil)}
	}
	for _, b := range pieces {
		if _, err := r.s.stream.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// writeFrom is write for a reply that is made in pieces.
func (r *request) writeFrom(long *repeated.Reply) error {
	defer long.Free(calls.MaxNormal)
	if r.s.srv.tracesPDUs() {
		return r.write(long.Peek(make([]byte, long.Len())))
	}
	var head [64]byte
	_, t, _ := pdu.Header(long.Peek(head[:]))
	r.s.srv.cfg.Counts.Out(t)
	return r.s.stream.WriteFrom(long)
}

// fail sends an error as the answer.
func (r *request) fail(code pdu.Errno) error {
	r.calls.Out = appendError(r.calls.Out[:0], code)
	return r.write(r.calls.Out)
}

// appendError appends an ERROR PDU.
func appendError(b []byte, code pdu.Errno) []byte {
	b = binary.BigEndian.AppendUint32(b, pdu.HeaderLen+4)
	b = binary.BigEndian.AppendUint32(b, uint32(pdu.TypeError))
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}
