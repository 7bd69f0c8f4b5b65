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

// A configuration of one's own is one in pmcd.options, too.
func TestPCPOwnConfiguration(t *testing.T) {
	h := with(t)
	h.ownFiles()
	h.run("echo '" + ownOptions + "' >>/etc/pcp/pmcd/pmcd.options && systemctl start pmcd.service")
	h.check("pmcdctl status", "user pcp", "configuration: /etc/own/pmcd.conf", "/etc/own/root")
}

// reload.conf gives PCP's unit a reload.
func TestPCPReload(t *testing.T) {
	h := with(t)
	h.run("systemctl start pmcd.service")
	if text, code := h.Try("systemctl reload pmcd.service"); code == 0 {
		t.Errorf("PCP's unit has a reload: %s", text)
	}
	h.run("install -D -t /etc/systemd/system/pmcd.service.d /usr/local/share/pmcd/systemd/reload.conf && systemctl daemon-reload")
	pid := h.show("pmcd.service", "MainPID")
	h.run("systemctl reload pmcd.service")
	h.until("pmcdctl status | grep 'reloads: *1,'")
	if got := h.show("pmcd.service", "MainPID"); got != pid {
		t.Errorf("the main process is %s, was %s", got, pid)
	}
}
