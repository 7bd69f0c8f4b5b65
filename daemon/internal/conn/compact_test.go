package conn

import (
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A session that waits for its turn holds little of what its client has sent, however much
// that is.
func TestCompactedInput(t *testing.T) {
	const clients, most = 200, 2 << 10 // bytes for each client
	for _, tt := range []struct {
		name string
		sent int // bytes by each client
	}{
		{"short requests", 1 << 10},
		{"long requests", 60 << 10},
	} {
		for _, k := range kinds {
			if k.tls != 0 { // its records have buffers of their own
				continue
			}
			t.Run(tt.name+"/"+k.name, func(t *testing.T) {
				h := newHarness(t, k, 100)
				h.alwaysBusy.Store(true)
				h.serving.Lock()
				defer h.serving.Unlock()
				var peers []*peer
				for range clients {
					peers = append(peers, h.dial())
				}
				before := testutil.LiveHeap()
				input := make([]byte, tt.sent)
				for _, p := range peers {
					if _, err := p.conn.Write(input); err != nil {
						t.Fatal(err)
					}
				}
				testutil.Eventually(t, "all wait for their turns", func() bool { return h.withInput.Load() == clients })
				if held := (testutil.LiveHeap() - before) / clients; held > most {
					t.Errorf("%d bytes for each client, more than %d", held, most)
				}
				for _, p := range peers {
					p.conn.Close()
				}
			})
		}
	}
}
