package systemtest

import (
	"strings"
	"testing"
)

// What "make install" has put there "make uninstall" removes. It stops and disables what runs.
func TestUninstall(t *testing.T) {
	h := boot(t, here.without)
	before := h.run("find /usr/local /etc /usr/lib/systemd -newermt 1970-01-02 | sort")
	h.install("")
	h.run("systemd-sysusers && systemctl daemon-reload && systemctl enable --now pmcd.socket pmcd.service pmcd-prometheus.service")
	h.run("make -s -C " + tree + " uninstall PLUGINS= PMDAS=")
	if text := h.run("systemctl list-units --no-legend --all 'pmcd*' | grep -v not-found; pgrep -l pmcd; find /etc/systemd -name '*pmcd*'"); text != "" {
		t.Errorf("left:\n%s", text)
	}
	after := h.run("find /usr/local /etc /usr/lib/systemd -newermt 1970-01-02 ! -path '/etc/*passwd*' ! -path '/etc/*group*' ! -path '/etc/*shadow*' -type f | sort")
	for file := range strings.Lines(after) {
		if !strings.Contains(before, file) {
			t.Errorf("left: %s", file)
		}
	}
}

// PCP is purged while this pmcd is in the place of its own. "make uninstall", or
// "swap-pmcd out", leaves no diversion: a later installation runs PCP's.
func TestPCPPurged(t *testing.T) {
	for _, how := range []string{"make -s -C " + tree + " uninstall PLUGINS= PMDAS=", "swap-pmcd out"} {
		t.Run(how, func(t *testing.T) {
			h := with(t)
			h.check("dpkg-divert --list '*/pmcd'", "/usr/lib/pcp/bin/pmcd.pcp")
			h.run(purgePCP)
			h.run(how)
			if text := h.run("dpkg-divert --list '*/pmcd'"); text != "" {
				t.Errorf("left: %s", text)
			}
			if text, code := h.Try("ls -d /usr/lib/pcp/bin"); code == 0 {
				t.Errorf("left: %s", text)
			}
			h.run(how) // again is no error
		})
	}
}

// Without systemd-sysusers "make install" says what is missing: the account that
// pmcd runs as.
func TestInstallWithoutSysusers(t *testing.T) {
	h := boot(t, here.without)
	h.run("mv /usr/bin/systemd-sysusers /usr/bin/systemd-sysusers.away")
	text := h.check("cd "+tree+" && make -s install PLUGINS= PMDAS= 2>&1", "systemd-sysusers is missing", "account pcp")
	_, command, _ := strings.Cut(text, "\n")
	h.run(command)
	if text := h.run("make -s -C " + tree + " install PLUGINS= PMDAS= 2>&1"); text != "" {
		t.Errorf("with the account it says %s", text)
	}
	h.run("systemctl daemon-reload && systemctl start pmcd.service")
	h.check("pmcdctl status", "user pcp")
}

// PCP comes after pmcd. "make install" again, and what that asks for, has PCP's unit
// start this pmcd.
func TestPCPComesLater(t *testing.T) {
	h := boot(t, here.with)
	h.install("PCP= SWAP= UNITS=yes")
	h.run("systemctl daemon-reload && systemctl enable --now pmcd.socket pmcd.service")
	text := h.check("cd "+tree+" && make -s install PLUGINS= PMDAS= 2>&1", "units of a host without PCP")
	_, commands, _ := strings.Cut(text, "\n")
	commands, _, _ = strings.Cut(commands, "\n")
	h.run(commands)
	h.run("systemctl restart pmcd.service")
	if got := h.show("pmcd.service", "FragmentPath"); !strings.HasPrefix(got, "/lib/") && !strings.HasPrefix(got, "/usr/lib/") {
		t.Errorf("the unit is %s", got)
	}
	h.check("pmcdctl status", "configuration: /etc/pcp/pmcd/pmcd.conf")
	if text, code := h.Try("find /etc/systemd -name pmcd.socket | grep ."); code == 0 {
		t.Errorf("left: %s", text)
	}
}
