package conn

import (
	"io"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A session is told before Read or Write waits for the client: while it waits, others
// compute in its place.
func TestBeforeWait(t *testing.T) {
	for _, tt := range []struct {
		name, sent string
		end        func(p *peer)
	}{
		{"Read waits for the rest", "xy+", func(p *peer) {
			p.expect("xy+")
			p.ask("z")
		}},
		{"Write waits for a client that does not read", "x*", func(p *peer) {
			p.expect("x*")
			if _, err := io.CopyN(io.Discard, p.conn, largeReply); err != nil {
				p.h.t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				h := newHarness(t, k, 100)
				p := h.dial()
				before := p.s.waits.Load()
				if _, err := p.conn.Write([]byte(tt.sent)); err != nil {
					t.Fatal(err)
				}
				testutil.Eventually(t, "BeforeWait is called", func() bool { return p.s.waits.Load() > before })
				tt.end(p)
			})
		})
	}
}
