package attack

import (
	"encoding/binary"
	"net"
)

// discard reads PDUs until the connection ends, and announces each.
func (r *Running) discard(conn net.Conn, replied chan<- struct{}) {
	buf := make([]byte, 8<<10)
	var head [4]byte
	have, rest := 0, 0 // bytes of the length, and of the PDU that are to come
	for {
		n, err := conn.Read(buf)
		r.received.Add(int64(n))
		for b := buf[:n]; len(b) > 0; {
			if rest == 0 {
				k := copy(head[have:], b)
				have, b = have+k, b[k:]
				if have < len(head) {
					break
				}
				have, rest = 0, max(0, int(binary.BigEndian.Uint32(head[:]))-len(head))
				continue
			}
			k := min(rest, len(b))
			rest, b = rest-k, b[k:]
			if rest == 0 {
				r.replies.Add(1)
				select {
				case replied <- struct{}{}:
				default:
				}
			}
		}
		if err != nil {
			return
		}
	}
}
