package conn

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// handshakes limit how many handshakes are computed at a time. A signature with an RSA key
// takes a CPU for nearly a millisecond, and an attacker with many connections would have all
// CPUs.
type handshakes struct {
	once sync.Once
	l    *fairqueue.Limiter // see limiter
}

// most returns how many are computed at a time: one less than there are CPUs, since pmcd has a
// thread more than these, unless an admin has set GOMAXPROCS.
func (h *handshakes) most() int { return max(1, runtime.GOMAXPROCS(0)-2) }

// limiter returns the Limiter, in which the size of each handshake is 1.
func (h *handshakes) limiter() *fairqueue.Limiter {
	h.once.Do(func() { h.l = fairqueue.NewLimiter(int64(h.most())) })
	return h.l
}

// A handshake is that of one connection. It has a Use of the Limiter while it is computed.
type handshake struct {
	limiter  *fairqueue.Limiter
	plain    plainConn
	key      *fairqueue.Key
	deadline time.Time
	hold     func(n int64) error // accounts for memory
	use      *fairqueue.Use      // nil if it has none
}

// begin waits until h may be computed, within the deadline, if it has no Use. It fails with
// os.ErrDeadlineExceeded, or if the connection is interrupted or aborted.
func (h *handshake) begin() error {
	if h.use != nil {
		return nil
	}
	h.use = new(fairqueue.Use)
	if h.limiter.Start(h.use, 1, h.key) {
		return nil
	}
	timer := time.NewTimer(time.Until(h.deadline))
	defer timer.Stop()
	err := os.ErrDeadlineExceeded
	select {
	case <-h.use.Begun():
		return nil
	case <-timer.C:
	case <-h.plain.ended():
		// It is not io.EOF itself, with which crypto/tls would use what was read.
		err = fmt.Errorf("the connection has ended: %w", cmp.Or(h.plain.interrupted(), io.EOF))
	}
	h.end()
	return err
}

// end ends the Use, if h has one.
func (h *handshake) end() {
	if h.use != nil {
		h.use.End()
		h.use = nil
	}
}
