package pdu

import (
	"encoding/binary"
	"fmt"
)

// AppendDump appends a text dump of the PDU b to dst: a line with its type, length
// and sender, and then the words of b, eight in a line after the number of the
// first.
//
//	ERROR len=16 from=0
//	000: 00000010 00007000 00000000 ffffcfba
//
// The PDU need not be valid. The bytes after the last whole word are dumped, too.
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
