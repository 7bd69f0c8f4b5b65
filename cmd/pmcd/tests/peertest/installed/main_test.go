// Package installed tests our pmcd in place of PCP's in an installation of PCP: its scripts, its
// services, and the agents' Install. Each test has a machine of its own, so they run side by side.
package installed

import (
	"os"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func TestMain(m *testing.M) {
	if isPMDA() { // the test program is an agent, too
		os.Exit(servePMDA())
	}
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}
