package systemtest

import (
	"strings"
	"testing"
)

// The unit for a host without PCP: pmcd serves, "pmcdctl status" can ask it, and
// nothing of it is left when it stops.
func TestUnit(t *testing.T) {
	h := without(t)
	h.run("systemctl start pmcd.service")
	h.check("pmcdctl status", "user pcp", "configuration: embedded")
	h.check("ls /run/pcp", "pmcd.ctl\n", "pmcd.pid\n", "pmcd.socket\n")
	if pid, want := h.run("cat /run/pcp/pmcd.pid"), h.show("pmcd.service", "MainPID"); pid != want {
		t.Errorf("the pid file has %s, the main process is %s", pid, want)
	}
	h.run("systemctl restart pmcd.service && pmcdctl status")
	h.run("systemctl stop pmcd.service")
	if text := h.run("ls /run/pcp"); text != "" {
		t.Errorf("left in /run/pcp:\n%s", text)
	}
	if text := h.journal("pmcd.service"); strings.Contains(text, "permission denied") {
		t.Errorf("the journal:\n%s", text)
	}
}
