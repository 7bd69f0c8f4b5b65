package relay

import (
	"encoding/binary"
	"unsafe"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// A NamesWriter builds a PMNSNames PDU without status from names and from stretches
// of names in wire form. It does not copy long stretches, so the PDU consists of
// several pieces. Call Reset before other methods.
type NamesWriter struct {
	pieces [][]byte
	own    []byte // the head, and names that are not from long stretches
	done   int    // bytes of own that are in pieces
	names  int
	bytes  int // in the names, without lengths and padding
	len    int // of the PDU without the head
	max    int // bytes, or 0
}

const namesHeaderLen = pduformat.HeaderLen + 12

// longStretch is the length in bytes from which a piece of its own costs less than a
// copy.
const longStretch = 256 << 10

// Reset starts a PDU, and uses the memory of b for it.
func (w *NamesWriter) Reset(b []byte) {
	clear(w.pieces)
	*w = NamesWriter{pieces: w.pieces[:0], own: append(b[:0], make([]byte, namesHeaderLen)...), max: w.max}
}

// Limit sets the longest PDU in bytes; a longer one fails with pdu.ErrTooLong. 0 is the
// limit of the protocol.
func (w *NamesWriter) Limit(max int) { w.max = max }

// Full reports whether the PDU is too long already, so that Finish will fail.
func (w *NamesWriter) Full() bool {
	total := namesHeaderLen + w.len
	return total > pduformat.MaxLen || w.max > 0 && total > w.max
}

// Name appends one name.
func (w *NamesWriter) Name(name string) {
	w.own = binary.BigEndian.AppendUint32(w.own, uint32(len(name)))
	w.own = append(append(w.own, name...), "~~~"[:pduformat.Pad4(len(name))-len(name)]...)
	w.names++
	w.bytes += len(name)
	w.len += 4 + pduformat.Pad4(len(name))
}

// Stretch appends a number of names. wire has the length of each name, in a 32-bit
// word, and its bytes, padded to whole words. bytes is the sum of the lengths.
func (w *NamesWriter) Stretch(wire string, names, bytes int) {
	if len(wire) < longStretch {
		w.own = append(w.own, wire...)
	} else {
		w.flush()
		w.pieces = append(w.pieces, unsafe.Slice(unsafe.StringData(wire), len(wire)))
	}
	w.names += names
	w.bytes += bytes
	w.len += len(wire)
}

// flush makes a piece of the bytes of own that are not in a piece yet.
func (w *NamesWriter) flush() {
	if n := len(w.own); n > w.done {
		w.pieces = append(w.pieces, w.own[w.done:n:n])
		w.done = n
	}
}

// Names returns the number of names so far.
func (w *NamesWriter) Names() int { return w.names }

// Own returns the memory for the next Reset.
func (w *NamesWriter) Own() []byte { return w.own }

// Finish returns the PDU, whose pieces must not be written to. They are valid
// until the next Reset.
func (w *NamesWriter) Finish() ([][]byte, error) {
	w.flush()
	total := namesHeaderLen + w.len
	var err error
	switch {
	case w.len < 8*w.names: // too many empty names: see PMNSNames.parse
		err = pdu.ErrCount
	case w.Full() || w.bytes > pduformat.MaxLen-w.names:
		err = pdu.ErrTooLong
	}
	if err != nil {
		return nil, &pdu.ParseError{Type: pdu.TypePMNSNames, Err: err}
	}
	h := w.pieces[0] // not own, which may have been moved since
	binary.BigEndian.PutUint32(h, uint32(total))
	binary.BigEndian.PutUint32(h[4:], uint32(pdu.TypePMNSNames))
	binary.BigEndian.PutUint32(h[pduformat.HeaderLen:], uint32(w.bytes+w.names))
	binary.BigEndian.PutUint32(h[pduformat.HeaderLen+8:], uint32(w.names))
	return w.pieces, nil
}
