package systemtest

import (
	"fmt"
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

// ownOptions name the files that ownFiles writes.
const ownOptions = "-c /etc/own/pmcd.conf -n /etc/own/root"

// ownFiles writes a configuration and a name space of one's own.
func (h *host) ownFiles() {
	h.t.Helper()
	h.Write(h.t, "/etc/own/pmcd.conf", "pmcd 2 dso pmcd_init /none\nlinux 60 dso linux_init /none\n")
	h.Write(h.t, "/etc/own/root", "root { pmcd kernel }\npmcd { numclients 2:0:3 }\nkernel { all }\nkernel.all { load 60:2:0 }\n")
}

func TestUnitOwnConfiguration(t *testing.T) {
	h := without(t)
	h.ownFiles()
	h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="`+ownOptions+`"`+"\n")
	h.run("systemctl start pmcd.service")
	h.check("pmcdctl status", "user pcp", "configuration: /etc/own/pmcd.conf", "/etc/own/root", "/run/pcp/pmcd.socket")
	h.run("systemctl reload pmcd.service")
	h.until("pmcdctl status | grep 'reloads: *1,'")
	h.run("systemctl stop pmcd.service")
	if text := h.run("ls /run/pcp"); text != "" {
		t.Errorf("left in /run/pcp:\n%s", text)
	}
}

// Entries of the journal have fields, and belong to the unit up to the last one.
func TestUnitJournal(t *testing.T) {
	h := without(t)
	h.ownFiles()
	h.Write(t, "/etc/own/pmcd.conf", "pmcd 2 dso pmcd_init /none\nnosuch 254 pipe binary /nosuch\n")
	h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="`+ownOptions+`"`+"\n")
	h.run("systemctl start pmcd.service && pmcdctl status || :; systemctl stop pmcd.service; journalctl --sync")
	const journal = "journalctl --no-pager -q -o cat -u pmcd.service "
	h.check(journal+"PMCD_AGENT=nosuch PMCD_DOMAIN=254 -p err", "cannot start \"nosuch\" agent (dom 254): ")
	h.check(journal+"PMCD_AGENT=nosuch --output-fields=PMCD_ERROR,PMCD_ATTEMPT", "/nosuch", "no such file or directory")
	h.check(journal+"PMCD_SIGNAL=SIGTERM", "pmcd caught SIGTERM from unknown process\n")
	h.check(journal, "active agent dom   pid  in out ver protocol parameters\n=====", "pmcd Shutdown\n")
}

// pmcd is started again however often it ends, and does not end with an agent that
// the kernel kills.
func TestUnitRestarts(t *testing.T) {
	h := without(t)
	h.dropIn("soon.conf", "[Service]\nRestartSec=50ms\n")
	h.restarts()
	if got := h.show("pmcd.service", "After"); strings.Contains(got, "network-online.target") {
		t.Errorf("pmcd waits for %s", got)
	}
	h.run("rm /etc/systemd/system/pmcd.service.d/soon.conf && systemctl daemon-reload")
	if got := h.show("pmcd.service", "RestartUSec"); got != "2s" {
		t.Errorf("it is started again after %s", got)
	}
}

// The same with restart.conf for PCP's unit, whose script takes longer.
func TestPCPRestarts(t *testing.T) {
	h := with(t)
	h.run("install -D -t /etc/systemd/system/pmcd.service.d /usr/local/share/pmcd/systemd/restart.conf")
	h.dropIn("soon.conf", "[Service]\nRestartSec=50ms\n")
	h.restarts()
}

// restarts kills pmcd more often than systemd would have it by default: 5 times
// in 10 s.
func (h *host) restarts() {
	h.t.Helper()
	if got := h.show("pmcd.service", "OOMPolicy"); got != "continue" {
		h.t.Errorf("OOMPolicy=%s", got)
	}
	h.run("systemctl start pmcd.service")
	for i := range 7 {
		pid := h.show("pmcd.service", "MainPID")
		h.run("kill -KILL " + pid)
		// PCP's script is still at work when pmcd is ready. If it gets SIGTERM while it
		// starts a program, systemd waits for that program.
		h.until(fmt.Sprintf("[ $(systemctl show --value -p NRestarts pmcd) = %d ] && systemctl is-active pmcd && ! pgrep -f '[p]mcd start-systemd'", i+1))
	}
	h.check("pmcdctl status", "user pcp")
}

// A mistake in what the admin has written is the end of the start, with a reason
// of one line and an exit code. systemd tries again only if the cause may go away.
func TestUnitMistake(t *testing.T) {
	h := without(t)
	h.dropIn("later.conf", "[Service]\nRestartSec=1h\n") // a second attempt would log more
	for _, tt := range []struct{ options, want, then string }{
		{"--nosuch", "nosuch", "failed"},
		{"-U nosuch", "nosuch", "auto-restart"},
		{"-c /nosuch -n /nosuch", "/nosuch", "failed"},
		{"-c /nosuch", "give -n", "failed"},
	} {
		h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="`+tt.options+`"`+"\n")
		before := h.says()
		text, code := h.Try("systemctl start pmcd.service")
		if code == 0 {
			t.Errorf("%s: started", tt.options)
		}
		if got := h.show("pmcd.service", "Result"); got != "exit-code" {
			t.Errorf("%s: %s: %s", tt.options, got, text)
		}
		if got := h.show("pmcd.service", "SubState"); got != tt.then {
			t.Errorf("%s: %s, want %s", tt.options, got, tt.then)
		}
		if failed := strings.Contains(h.run("systemctl --failed"), "pmcd.service"); failed != (tt.then == "failed") {
			t.Errorf("%s: systemctl --failed shows it: %v", tt.options, failed)
		}
		h.run("systemctl stop pmcd.service")
		said := strings.TrimPrefix(h.says(), before)
		if !strings.Contains(said, tt.want) || strings.Count(said, "\n") > 3 {
			t.Errorf("%s: pmcd says\n%s", tt.options, said)
		}
	}
	// A client that waits does not have it started for ever.
	h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="--nosuch"`+"\n")
	h.run("systemctl start pmcd.socket")
	if conn, err := h.Dial("tcp", "127.0.0.1:44321"); err != nil {
		t.Error(err)
	} else {
		defer conn.Close()
	}
	h.until("systemctl is-failed pmcd.socket && systemctl is-failed pmcd.service")
	h.Write(t, "/etc/default/pmcd", "")
	h.run("systemctl restart pmcd.socket pmcd.service && pmcdctl status")
}

// says returns what pmcd has written to the journal.
func (h *host) says() string {
	h.t.Helper()
	return h.run("journalctl --sync && journalctl --no-pager -q -o cat -t pmcd")
}
