package agentset

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/gopcp/pmcd/internal/transport"
)

// How a process has ended is said once, whether the end of the stream or that of the process is
// noticed first.
func TestEndIsSaidOnce(t *testing.T) {
	for _, cause := range []error{errors.New("end of file"), transport.Ended(syscall.SIGKILL)} {
		t.Run(cause.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, nil, nil)
				h.start()
				h.agent.Conn().Process = newKilledProcess()
				h.last.die(cause)
				synctest.Wait()
				if got := h.agent.Status().LastError; !strings.HasPrefix(got, cause.Error()+"; ") || strings.Count(got, "SIGKILL") != 1 {
					t.Errorf("last error %q", got)
				}
			})
		})
	}
}
