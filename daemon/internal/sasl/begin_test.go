package sasl_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// If a login ends while the helper is about to answer, the helper is not to blame: it goes
// on, and nothing is logged.
func TestBeginEnds(t *testing.T) {
	asked := make(chan struct{})
	h, log := newFakeHost(t, testutil.Hangs, func(c *net.UnixConn) {
		c.Write([]byte("Rfake"))
		for l := loginSocket(c); l != nil; l = loginSocket(c) {
			b := make([]byte, 100)
			l.Read(b)
			asked <- struct{}{}
			l.Read(b) // until pmcd has closed it
			l.Close()
			c.Read(b) // the end of the login
		}
	})
	for range 2 {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		go func() {
			_, _, err := h.Begin(ctx, login("a"))
			result <- err
		}()
		<-asked
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Errorf("got %v, want %v", err, gone)
		}
	}
	if list := log.All(); len(list) > 0 {
		t.Errorf("log: %+v", list)
	}
}
