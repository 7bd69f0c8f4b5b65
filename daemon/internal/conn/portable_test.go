package conn

import "testing"

// A probe may be received before its wake: here because a client connects at that
// moment. Then clients are accepted all the same.
func TestPortableProbeBeforeWake(t *testing.T) {
	for _, k := range kinds {
		if !k.portable {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			h := newHarness(t, k, 100)
			for _, ln := range h.loop.(*portableLoop).listeners {
				if ln.Addr().Network() != k.network {
					continue
				}
				done := make(chan struct{})
				ln.probes <- done
				h.dial()
				<-done
				ln.wake()
				h.dial().ask("xy")
			}
		})
	}
}
