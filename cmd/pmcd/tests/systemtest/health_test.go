package systemtest

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// eachKind runs a test on a host without PCP and on one with it. options makes
// words options of pmcd from its next start on.
func eachKind(t *testing.T, test func(t *testing.T, h *host, options func(words string))) {
	t.Run("without PCP", func(t *testing.T) {
		h := without(t)
		test(t, h, func(words string) {
			h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="`+words+`"`+"\n")
		})
	})
	t.Run("with PCP", func(t *testing.T) {
		h := with(t)
		test(t, h, func(words string) { h.Write(t, "/etc/pcp/pmcd/pmcd.options", words+"\n") })
	})
}

// status runs "pmcdctl status", which must end with an exit code.
func (h *host) status(code int) string {
	h.t.Helper()
	text, got := h.Try("pmcdctl status")
	if got != code {
		h.t.Errorf("pmcdctl status: exit code %d, want %d\n%s", got, code, text)
	}
	return text
}

// agentPID is the process of an agent.
func (h *host) agentPID(name string) string {
	h.t.Helper()
	return strings.TrimSpace(h.run("pmcdctl status | awk '$1 == \"" + name + "\" { print $6 }'"))
}

// agentStatus is pmcd.agent.status of an agent.
func (h *host) agentStatus(name string) string {
	h.t.Helper()
	out, err := exec.Command("pminfo", "-f", "-h", "unix://"+h.Path("/run/pcp/pmcd.socket"), "pmcd.agent.status").CombinedOutput()
	m := regexp.MustCompile(`or "` + name + `"\] value (\d+)`).FindStringSubmatch(string(out))
	if m == nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return m[1]
}

var counts = regexp.MustCompile(`(\d+) of (\d+)`)

// The status of the service, the exit code of pmcdctl and pmcd.agent.status follow the
// agents. When an agent has died, the others go on.
func TestAgentDies(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, options func(string)) {
		options("-q 60")
		h.run("mkdir -p /etc/default && echo PMCD_RESTART_AGENTS=0 >>/etc/default/pmcd && systemctl start pmcd.service")
		h.status(0)
		m := counts.FindStringSubmatch(h.show("pmcd.service", "StatusText"))
		if m == nil || m[1] != m[2] {
			t.Fatalf("%s", h.show("pmcd.service", "StatusText"))
		}
		all := m[2]
		h.run("kill -KILL " + h.agentPID("kvm"))
		h.until(`systemctl show -p StatusText pmcd.service | grep " of ` + all + ` " | grep -v " ` + all + ` of"`)
		if text := h.show("pmcd.service", "StatusText"); !strings.Contains(text, "kvm") {
			t.Errorf("%s: not which", text)
		}
		h.status(1)
		if got := h.agentStatus("kvm"); got == "0" || got == "1" {
			t.Errorf("pmcd.agent.status is %s", got)
		}
	})
}

// An agent in its first start is not well yet, and one that was ended for that
// keeps the reason.
func TestAgentStarts(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, options func(string)) {
		names := "/usr/local/share/pmcd/root"
		h.Write(t, "/etc/own/pmcd.conf", "pmcd 2 dso pmcd_init /none\nslow 240 pipe binary /bin/sleep 10000\n")
		for _, tt := range []struct{ seconds, block, state, status string }{
			{"60", "--no-block", "starting", "^1$"},
			{"1", "", "", "^[^01]"},
		} {
			options("-q " + tt.seconds + " -c /etc/own/pmcd.conf -n " + names)
			h.run("systemctl stop pmcd.service; systemctl start " + tt.block + " pmcd.service")
			h.until("[ -S /run/pcp/pmcd.ctl ]; pmcdctl status | grep '^slow .* " + tt.state + "'")
			h.status(1)
			if got := h.agentStatus("slow"); !regexp.MustCompile(tt.status).MatchString(got) {
				t.Errorf("-q %s: pmcd.agent.status is %s", tt.seconds, got)
			}
		}
	})
}

// An address that pmcd cannot listen at is a warning, wherever an admin looks.
// fe80::1 needs the name of an interface.
func TestBadAddress(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, options func(string)) {
		h.needIPv6()
		options("-i 127.0.0.1 -i fe80::1")
		h.run("systemctl start pmcd.service")
		h.greets("tcp", "127.0.0.1:44321")
		if text := h.status(1); !strings.Contains(text, "fe80::1") {
			t.Errorf("pmcdctl status:\n%s", text)
		}
		if text := h.show("pmcd.service", "StatusText"); !strings.Contains(text, "fe80::1") {
			t.Errorf("STATUS=%s", text)
		}
		log := h.run("journalctl --sync; journalctl --no-pager -q -o cat -p warning -t pmcd; grep -s Warning /var/log/pcp/pmcd/pmcd.log || :")
		if !strings.Contains(log, "fe80::1") {
			t.Errorf("the warnings of the log:\n%s", log)
		}
	})
}

// An address that the host gets later is served from then on. Until then it is a problem.
func TestLateAddress(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, options func(string)) {
		h.needIPv6()
		options("-q 60 -i 127.0.0.1 -i 192.0.2.7 -i 2001:db8::7")
		h.run("systemctl start pmcd.service")
		for _, address := range []string{"192.0.2.7", "2001:db8::7"} {
			want := "no client is accepted at address " + address + " (-i): no interface has it"
			if text := h.status(1); !strings.Contains(text, "problem:       "+want) {
				t.Errorf("pmcdctl status:\n%s", text)
			}
			if text := h.show("pmcd.service", "StatusText"); !strings.Contains(text, want) {
				t.Errorf("STATUS=%s", text)
			}
			h.check("journalctl --sync; journalctl --no-pager -q -o cat -p warning -t pmcd; cat /var/log/pcp/pmcd/pmcd.log 2>/dev/null || :", want)
		}
		h.run("ip addr add 192.0.2.7/32 dev lo && ip addr add 2001:db8::7/128 dev lo nodad")
		h.until("ip route get 192.0.2.7 | grep ^local && ip -6 route get 2001:db8::7 | grep ^local")
		for _, address := range []string{"127.0.0.1:44321", "192.0.2.7:44321", "[2001:db8::7]:44321"} {
			h.greets("tcp", address)
		}
		h.until("pmcdctl status && ! systemctl show -p StatusText pmcd.service | grep 'no interface'")
	})
}

// pmcdctl tells an ordinary user why there is no answer.
func TestOrdinaryUser(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, _ func(string)) {
		h.run("systemctl start pmcd.service")
		text, code := h.Try("runuser -u nobody -- pmcdctl status")
		if code != 2 || !strings.Contains(text, "/run/pcp/pmcd.ctl") || !strings.Contains(text, "permission denied") {
			t.Errorf("exit code %d\n%s", code, text)
		}
		h.check("runuser -u pcp -- pmcdctl status", "user pcp")
	})
}

// A start that goes well says little: nothing of agents that are built in, and
// nothing of files that need not be there.
func TestStartLog(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, _ func(string)) {
		h.run("systemctl start pmcd.service")
		h.fetch()
		log := h.says() + h.run("cat /var/log/pcp/pmcd/pmcd.log 2>/dev/null || :")
		for _, no := range []string{"nonexistent", "does not exist", "simple", "no such file"} {
			for line := range strings.Lines(log) {
				if strings.Contains(line, no) {
					t.Errorf("the log: %s", line)
				}
			}
		}
		if text := h.run("journalctl --no-pager -q -o cat -p warning -t pmcd"); text != "" {
			t.Errorf("warnings:\n%s", text)
		}
	})
}

// What is installed knows its version.
func TestVersion(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, _ func(string)) {
		for _, command := range []string{"/usr/local/libexec/pcp/pmcd --version", "/usr/local/libexec/pcp/pmcd -V", "pmcdctl --version"} {
			text := h.check(command, "7.2.1")
			if m := regexp.MustCompile(`^\w+ (\d+\.\d+\S*)`).FindStringSubmatch(text); m == nil || strings.Contains(text, "dev") {
				t.Errorf("%s: %s", command, text)
			}
		}
	})
}

// systemd knows the process of pmcd from the start: MAINPID names one that is
// its child by then, although PCP's script has started it.
func TestPCPMainPID(t *testing.T) {
	h := with(t)
	for range 3 {
		h.run("systemctl restart pmcd.service")
		if pid, want := h.run("cat /run/pcp/pmcd.pid"), h.show("pmcd.service", "MainPID"); pid != want {
			t.Errorf("the main process is %s, the pid file has %s", want, pid)
		}
	}
	if text := h.journal("pmcd.service"); strings.Contains(text, "not our child") {
		t.Errorf("the journal:\n%s", text)
	}
}

// When the root helper dies, the service ends with all agents, says why, and is started
// again.
func TestHelperDies(t *testing.T) {
	eachKind(t, func(t *testing.T, h *host, options func(string)) {
		options("-q 60")
		h.run("systemctl start pmcd.service")
		old := h.agentPID("kvm")
		h.run("kill -KILL $(pgrep -x pmcd-root)")
		h.until("[ $(systemctl show --value -p NRestarts pmcd) = 1 ] && systemctl is-active pmcd")
		h.status(0)
		if text, code := h.Try(fmt.Sprintf("grep -az . /proc/%s/cmdline", old)); code == 0 && strings.Contains(text, "kvm") {
			t.Errorf("an agent is left: %s", text)
		}
		h.check("journalctl --sync; journalctl --no-pager -q -o cat -u pmcd.service", "status=1/FAILURE")
	})
}
