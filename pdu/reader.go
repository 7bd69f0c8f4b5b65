package pdu

import (
	"encoding/binary"
	"io"

	"github.com/gopcp/pmcd/internal/pduformat"
)

// maxLen is the longest PDU that libpcp accepts, in bytes.
const maxLen = pduformat.MaxLen

// Frame checks the header of the PDU at the start of b and returns the length of
// the PDU in bytes, which may be more than len(b). It returns 0 if b is shorter
// than a header.
//
// Frame returns a [*ParseError] if the length is more than max (0 for no limit) or
// less than that of a header, or if the type is unknown. Then the stream cannot be
// read any further.
func Frame(b []byte, max int) (n int, err error) {
	if len(b) < HeaderLen {
		return 0, nil
	}
	length := int32(binary.BigEndian.Uint32(b))
	t := Type(binary.BigEndian.Uint32(b[4:]))
	switch {
	case length < HeaderLen:
		err = ErrLength
	case length > maxLen || max > 0 && int(length) > max:
		err = ErrTooLong
	case t <= 0:
		err = ErrUnknownType
	default:
		return int(length), nil
	}
	return 0, &ParseError{Type: t, Off: HeaderLen, Err: err}
}

// A Reader reads whole PDUs from a byte stream. It reads ahead. Its memory is
// bounded by the bytes that it has received, not by the length in a header.
type Reader struct {
	r          io.Reader
	max        int // largest PDU accepted, in bytes; 0 means no limit but maxLen
	buf        []byte
	start, end int // what was read and not yet returned is buf[start:end]
	last       int // length of the PDU returned last
}

const (
	minRead  = 4 << 10  // bytes; the least a Reader has room for
	keepRead = 64 << 10 // bytes; the most it keeps room for without need
)

// NewReader returns a Reader that refuses PDUs longer than max bytes. If max is 0,
// it accepts any length up to that of libpcp, as pmcd does for agents.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: r, max: max}
}

// Buffered reports the number of bytes that were read ahead.
func (r *Reader) Buffered() int { return r.end - r.start }

// Wait blocks until the first byte of the next PDU has arrived. A caller with a
// timeout for a PDU, but not for an idle peer, sets its deadline between Wait and
// Next.
func (r *Reader) Wait() error { return r.fill(1) }

// Next returns the next whole PDU. The slice is valid until the next call of
// Wait or Next, and an append to it copies it. If the stream ends between two
// PDUs, the error is io.EOF. After a [*ParseError] the stream cannot be read any
// further.
func (r *Reader) Next() ([]byte, error) {
	err := r.fill(HeaderLen)
	var n int
	if err == nil {
		n, err = Frame(r.buf[r.start:r.end], r.max)
	}
	if err == nil {
		err = r.fill(n)
	}
	if err == io.EOF && r.Buffered() > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	b := r.buf[r.start : r.start+n : r.start+n]
	r.start += n
	r.last = n
	return b, nil
}

// fill reads until n bytes are buffered.
func (r *Reader) fill(n int) error {
	for r.Buffered() < n {
		r.room(n)
		m, err := r.r.Read(r.buf[r.end:])
		if m < 0 || m > len(r.buf)-r.end {
			panic("pdu: Read returned an impossible count")
		}
		r.end += m
		if err != nil && r.Buffered() < n {
			return err
		}
	}
	return nil
}

// room grows the buffer for more bytes of a PDU of n bytes, n being more than there
// are.
func (r *Reader) room(n int) {
	have := r.Buffered()
	if have == 0 {
		r.start, r.end = 0, 0
		if len(r.buf) > keepRead && r.last <= keepRead {
			r.buf = nil
		}
	} else if r.start > 0 && r.start+n > len(r.buf) {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, have
	}
	if r.end == len(r.buf) {
		// At most twice what was received.
		buf := make([]byte, max(min(n, 2*have), minRead))
		copy(buf, r.buf)
		r.buf = buf
	}
}
