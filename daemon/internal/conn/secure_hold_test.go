package conn

import (
	"errors"
	"testing"
)

// The memory of a handshake is accounted for, and a client for which there is none is
// disconnected. That of a usual handshake is small.
func TestHandshakeMemory(t *testing.T) {
	for _, k := range kinds {
		if k.tls == 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			h := newHarness(t, k, 100)
			h.dial().ask("xy")
			if n := h.held.Load(); n == 0 || n > maxHeld {
				t.Errorf("a usual handshake has %d bytes", n)
			}
			p := h.dialPlain()
			// A ClientHello of 65,000 bytes, in records of 1,000.
			for i := range maxHeld / 1000 {
				record := append([]byte{22, 3, 1, 1000 >> 8, 1000 & 0xff}, make([]byte, 1000)...)
				if i == 0 {
					copy(record[5:], []byte{1, 0, 65000 >> 8, 65000 & 0xff})
				}
				if _, err := p.conn.Write(record); err != nil {
					break // it has ended
				}
			}
			<-p.s.ended
			if !errors.Is(p.s.err, errHeld) {
				t.Errorf("ended with %v, want %v", p.s.err, errHeld)
			}
		})
	}
}
