package conn

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A counter is a Source of the numbers from 0 on, with eight bytes each.
type counter struct{ at, end int }

const counterHeld = 100 << 10

func (c *counter) Held() int     { return counterHeld }
func (c *counter) Advance(n int) { c.at += n }

func (c *counter) Peek(buf []byte) []byte {
	drop := c.at % 8
	var n int
	for n = 0; n+8 <= len(buf) && c.at-drop+n < c.end; n += 8 {
		binary.BigEndian.PutUint64(buf[n:], uint64((c.at-drop+n)/8))
	}
	return buf[min(drop, n):n]
}

// A reply of a Source arrives whole, in the order of its bytes. While it is not read, the memory of
// the Source counts, and not that of the reply.
func TestWriteFrom(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		works := p.s.works.Load()
		p.ask("x#")
		held := int64(counterHeld)
		if k.tls != 0 {
			held += maxSealed
		}
		testutil.Eventually(t, "the reply waits for its client", func() bool { return h.unread.Status().Used == held })
		var all [largeReply]byte
		if n, err := io.ReadFull(p.conn, all[:]); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for i := 0; i < len(all); i += 8 {
			if n := binary.BigEndian.Uint64(all[i:]); n != uint64(i/8) {
				t.Fatalf("%d at %d", n, i)
			}
		}
		if p.s.works.Load() == works {
			t.Error("BeforeWork was not called after a wait")
		}
		testutil.Eventually(t, "all is read", func() bool { return h.unread.Status().Used == 0 })
		p.ask("xy")
		p.ask("x#")
		p.conn.Close()
		if <-p.s.ended; errors.Is(p.s.err, io.EOF) {
			t.Errorf("a client that disconnects during a reply has ended with %v", p.s.err)
		}
	})
}
