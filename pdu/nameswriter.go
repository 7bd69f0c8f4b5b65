package pdu

import (
	"encoding/binary"
	"unsafe"
)

// A NamesWriter builds a PMNSNames PDU without status from names and from
// stretches of names that are in wire form already. Long ones are not copied, so
// the PDU is in pieces. The zero value is to be Reset.
type NamesWriter struct {
	pieces [][]byte
	own    []byte // the head, and names that are not from long stretches
	done   int    // bytes of own that are in pieces
	names  int
	bytes  int // of the names alone
	len    int // of all but the head
}

const namesHeaderLen = HeaderLen + 12

// longStretch is how many bytes cost less to be sent by themselves than to be
// copied.
const longStretch = 256 << 10

// Reset starts a PDU. The memory of b is used for it.
func (w *NamesWriter) Reset(b []byte) {
	clear(w.pieces)
	*w = NamesWriter{pieces: w.pieces[:0], own: append(b[:0], make([]byte, namesHeaderLen)...)}
}

// Name appends one name.
func (w *NamesWriter) Name(name string) {
	w.own = binary.BigEndian.AppendUint32(w.own, uint32(len(name)))
	w.own = appendPad(append(w.own, name...), len(name))
	w.names++
	w.bytes += len(name)
	w.len += 4 + pad4(len(name))
}

// Stretch appends a number of names. Each is in wire its length, in a 32-bit
// word, and its bytes, padded to whole words; they are so many bytes without
// lengths and padding.
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

// flush makes a piece of what is in own and not in a piece.
func (w *NamesWriter) flush() {
	if n := len(w.own); n > w.done {
		w.pieces = append(w.pieces, w.own[w.done:n:n])
		w.done = n
	}
}

// Names reports the number of names so far.
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
		err = ErrCount
	case total > maxLen || w.bytes > maxLen-w.names:
		err = ErrTooLong
	}
	if err != nil {
		return nil, &ParseError{Type: TypePMNSNames, Err: err}
	}
	h := w.pieces[0] // own may have got other memory since
	binary.BigEndian.PutUint32(h, uint32(total))
	binary.BigEndian.PutUint32(h[4:], uint32(TypePMNSNames))
	binary.BigEndian.PutUint32(h[HeaderLen:], uint32(w.bytes+w.names))
	binary.BigEndian.PutUint32(h[HeaderLen+8:], uint32(w.names))
	return w.pieces, nil
}
