package systemtest

import (
	"strings"
	"testing"
)

// Where PCP is installed its own unit starts this pmcd, and "swap-pmcd out" has
// it start PCP's again.
func TestPCPUnit(t *testing.T) {
	h := with(t)
	h.run("systemctl start pmcd.service")
	h.check("pmcdctl status", "user pcp", "configuration: /etc/pcp/pmcd/pmcd.conf")
	h.check("pminfo -f pmcd.build", "value")
	ours := h.run("pminfo -f pmcd.build")
	h.run("systemctl stop pmcd.service")
	if text := h.run("ls /run/pcp"); strings.Contains(text, "pmcd") {
		t.Errorf("left in /run/pcp:\n%s", text)
	}
	h.run("swap-pmcd out && systemctl start pmcd.service")
	if text := h.run("pminfo -f pmcd.build"); text == ours {
		t.Errorf("the pmcd of PCP has the build of ours: %s", text)
	}
	h.run("systemctl stop pmcd.service")
}
