package pdu

import (
	"encoding/binary"
	"fmt"
)

// AppendDump appends a picture of the PDU b to dst, for people: a line that
// says what it is, and the words of b, eight a line behind the number of the
// first.
//
//	ERROR len=16 from=0
//	000: 00000010 00007000 00000000 ffffcfba
//
// The PDU may be broken in any way. Bytes beyond the last word are shown as
// they are.
func AppendDump(dst, b []byte) []byte {
	n, t, from := Header(b)
	if len(b) < HeaderLen {
		dst = fmt.Appendf(dst, "%d bytes of a PDU", len(b))
	} else {
		dst = fmt.Appendf(dst, "%v len=%d from=%d", t, n, from)
		if int(n) != len(b) {
			dst = fmt.Appendf(dst, " (%d bytes)", len(b))
		}
	}
	for i := 0; len(b) > 0; i++ {
		if i%8 == 0 {
			dst = fmt.Appendf(dst, "\n%03d:", i)
		}
		if len(b) < 4 {
			dst = fmt.Appendf(dst, " %x", b)
			break
		}
		dst = fmt.Appendf(dst, " %08x", binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	return append(dst, '\n')
}
