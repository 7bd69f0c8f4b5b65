package agentset

import (
	"cmp"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Transport may wrap its errors. An agent that is late or not ready stays connected.
func TestTransportErrorIsWrapped(t *testing.T) {
	for _, tt := range []struct {
		err       error
		connected bool
		want      error // for the client; nil is err
	}{
		{transport.ErrLate, true, nil},
		{fmt.Errorf("box: %w", transport.ErrLate), true, nil},
		{fmt.Errorf("box: %w", transport.ErrNotReady), true, nil},
		{fmt.Errorf("box: %w", transport.ErrClosed), false, pdu.ErrnoNoAgent},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil, nil)
				h.Start(t.Context(), []*Agent{h.agent})
				if got, want := h.agent.Conn().TransportError(tt.err), cmp.Or(tt.want, tt.err); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
				if connected := h.agent.Conn() != nil; connected != tt.connected {
					t.Errorf("connected: %v, want %v", connected, tt.connected)
				}
			})
		})
	}
}
