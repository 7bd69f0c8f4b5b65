package systemtest

import (
	"slices"
	"strings"
	"testing"
)

// soon makes the snapshot before a trial short, and its watcher look each second and wait less long for agents.
const soon = `sed -i 's/^before=10 look=5 ready=60 every=30 log=150$/before=2 look=1 ready=20 every=1 log=150/' /usr/local/sbin/swap-pmcd && grep -q '^before=2 ' /usr/local/sbin/swap-pmcd
`

// beside boots a host on which PCP's pmcd runs and a pmlogger with it. This pmcd is installed, but not
// in its place.
func beside(t *testing.T, s system) *host {
	h := boot(t, s.with)
	h.install("SWAP=")
	h.Write(t, "/etc/systemd/system/bound.service", "[Unit]\nBindsTo=pmcd.service\nAfter=pmcd.service\n[Service]\nExecStart=/bin/sleep infinity\n")
	h.run(soon + `systemctl daemon-reload
systemctl start pmcd.service bound.service
cp /usr/lib/pcp/bin/pmcd /root/pcps
echo 'log mandatory on 1 sec { kernel.all.load kernel.all.cpu.user pmcd.agent.status }' >/root/config
systemd-run --quiet --unit=logger.service pmlogger -c /root/config -h local: -l /root/pmlogger.log /root/archive`)
	h.until("pminfo -f kernel.all.load && [ -s /root/archive.0 ]")
	return h
}

// unitRuns checks which pmcd the unit runs, that PCP's file is as it was, and that it serves.
func (h *host) unitRuns(ours bool) {
	h.t.Helper()
	h.until("pminfo -f kernel.all.load | grep value")
	text := h.run("cmp /root/pcps /usr/lib/pcp/bin/pmcd; swap-pmcd status || :")
	if is := strings.Contains(text, "pmcd.service runs this pmcd"); is != ours {
		h.t.Errorf("pmcd.service runs this pmcd: %v\n%s", is, text)
	}
}

// A trial that is kept. The pmlogger goes on over all of it; one of another pmcd is of no concern.
func TestTrialKept(t *testing.T) { eachSystem(t, testTrialKept) }

func testTrialKept(t *testing.T, s system) {
	h := beside(t, s)
	logger := h.show("logger.service", "MainPID")
	h.run(`ln -s /usr/local/libexec/pcp/pmcd /root/other
systemd-run --quiet --unit=other.service /root/other -F --embedded -i 127.0.0.1 -p 44398 -s /run/other.socket -l -
until pminfo -h localhost:44398 pmcd.pid; do sleep 0.2; done
systemd-run --quiet --unit=other-logger.service pmlogger -c /root/config -h localhost:44398 -l /root/other.log /root/other-archive`)
	h.until("[ -s /root/other-archive.0 ]")
	// By TCP, too.
	h.run("systemd-run --quiet --unit=tcp-logger.service pmlogger -c /root/config -h 127.0.0.1 -l /root/tcp.log /root/tcp-archive")
	h.until("[ -s /root/tcp-archive.0 ]")
	// Differences that are others each time are of no concern.
	h.run(`mv /usr/local/bin/pmcdctl /usr/local/bin/real
printf '#!/bin/sh\n[ "$1" != compare ] || [ "$(wc -l </root/compared)" -ge 4 ] || { echo . >>/root/compared; printf "METRIC DIFFERENCE\\ninstance domain 60.$(wc -l </root/compared)  gaps\\n\\nm. gaps\\n"; exit 1; }\nexec real "$@"\n' >/usr/local/bin/pmcdctl
chmod 755 /usr/local/bin/pmcdctl && : >/root/compared && pmcdctl compare | grep -x 'instance domain 60.1  gaps'`)
	h.check("swap-pmcd in --trial 10m 2>&1", "pmcd.service runs this pmcd for 10m")
	h.unitRuns(true)
	watched := strings.Fields(h.run("cat /run/pmcd-swap/loggers"))
	want := []string{logger, h.show("tcp-logger.service", "MainPID")}
	slices.Sort(watched)
	slices.Sort(want)
	if !slices.Equal(watched, want) {
		t.Errorf("the trial watches the pmloggers %q, want %q", watched, want)
	}
	h.run("systemctl stop other-logger.service other.service")
	h.until("systemctl is-active bound.service")
	h.check("swap-pmcd status 2>&1 || :", "is PCP's pmcd", "a trial runs")
	for _, do := range []string{"in", "in --trial 10m", "check --compare 5s"} {
		if text, code := h.Try("swap-pmcd " + do); code != 1 || !strings.Contains(text, "a trial runs") {
			t.Errorf("swap-pmcd %s: exit status %d\n%s", do, code, text)
		}
	}
	// The watcher has compared, and the pmlogger has logged.
	h.until("grep -q 'no differences' /run/pmcd-swap/report")
	pid := h.show("pmcd.service", "MainPID")
	h.check("swap-pmcd keep", "this pmcd goes on")
	h.check("swap-pmcd status", "/usr/lib/pcp/bin/pmcd is this pmcd", "pmcd.service runs this pmcd")
	if got := h.show("pmcd.service", "MainPID"); got != pid {
		t.Errorf("keep has restarted pmcd: process %s was %s", got, pid)
	}
	h.run("systemctl restart pmcd.service")
	h.swapped(true)
	h.run("swap-pmcd out && systemctl restart pmcd.service")
	h.unitRuns(false)
	if text, code := h.Try("swap-pmcd keep"); code != 1 || !strings.Contains(text, "no trial runs") {
		t.Errorf("exit status %d\n%s", code, text)
	}
	if got := h.show("logger.service", "MainPID"); got != logger || got == "0" {
		t.Errorf("pmlogger is process %s, was %s", got, logger)
	}
	h.until("pmlogsummary -zlN /root/archive >/root/before && sleep 2 && pmlogsummary -zlN /root/archive | cmp -s /root/before -; [ $? = 1 ]")
	h.run("systemctl stop logger.service")
	h.check("pmlogcheck /root/archive; pmdumplog -a /root/archive | grep '<mark>'", "<mark>")
}

// Where this pmcd has another type (SELinux) than PCP's, a trial runs a copy in /run, where, as on
// Debian, nothing else can be executed. The host has no SELinux: programs of this test say so.
func TestTrialSELinux(t *testing.T) {
	h := beside(t, here)
	h.run(`mount -o remount,noexec /run
cd /usr/local/bin
printf '#!/bin/sh\n' >selinuxenabled
printf '#!/bin/sh\necho "$@" >>/root/labels\n' >chcon
printf '#!/bin/sh\ncase "$*" in "-c %%C /usr/lib/"*) echo u:r:pcp_pmcd_exec_t:s0 ;; "-c %%C"*) echo u:r:usr_t:s0 ;; *) exec /usr/bin/stat "$@" ;; esac\n' >stat
chmod 755 selinuxenabled chcon stat`)
	h.check("swap-pmcd in --trial 10m 2>&1", "pmcd.service runs this pmcd for 10m")
	h.unitRuns(true)
	h.check("cat /root/labels", "--reference=/usr/lib/pcp/bin/pmcd /run/pmcd-swap/pmcd\n")
	h.run("swap-pmcd out")
	h.unitRuns(false)
}

// However a trial ends, PCP's pmcd serves, and it is said why.
func TestTrialEnds(t *testing.T) { eachSystem(t, testTrialEnds) }

func testTrialEnds(t *testing.T, s system) {
	h := beside(t, s)
	for _, tt := range []struct{ name, do, why string }{
		{"the pmlogger ends", "systemctl stop logger.service", "pmlogger, process "},
		{"its time is over", "systemctl stop bound.service && cd /run/systemd/transient && grep -qx RuntimeMaxSec=10min pmcd-swap-trial.service && sed -i 's/^RuntimeMaxSec=.*/RuntimeMaxSec=1s/' pmcd-swap-trial.service && systemctl daemon-reload", "its time is over"},
		{"out", "swap-pmcd out", "swap-pmcd out"},
		{"the watcher is killed", "systemctl kill -s KILL pmcd-swap-trial.service", "its watcher has ended (signal)"},
		{"pmcd is killed", "systemctl kill -s KILL --kill-who=main pmcd.service", "has ended, or was restarted"},
		{"pmcd and the watcher are killed", "systemctl kill -s KILL pmcd.service pmcd-swap-trial.service", "its watcher has ended (signal)"},
		{"pmcd is restarted", "systemctl restart pmcd.service", "has ended, or was restarted"},
		{"a unit is wrong", `sed -i '/"name": "kernel.all.uptime"/,/"units"/s/"units": ".*"/"units": "hour"/' /run/pmcd-swap/before.json`, "kernel.all.uptime"},
		{"an agent ends again and again", "for i in 1 2; do p=$(pgrep -x pmdalinux); kill -KILL $p; until q=$(pgrep -x pmdalinux) && [ \"$q\" != \"$p\" ]; do sleep 0.1; done; done", "swap-pmcd: the trial is over"},
		{"PCP is upgraded", strings.Replace(upgradePCP, "dpkg --force", "dpkg --no-triggers --force", 1), "has ended, or was restarted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{h.Machine, t}
			h.run("swap-pmcd in --trial 10m")
			h.unitRuns(true)
			h.run(tt.do)
			bound := "active"
			if strings.Contains(tt.do, "stop bound.service") { // by the admin: it stays so
				bound = "inactive"
			}
			h.until("[ $(systemctl is-active pmcd-swap-trial.service) = inactive ] && systemctl is-active pmcd.service && [ $(systemctl is-active bound.service) = " + bound + " ] && [ ! -e /run/systemd/system/pmcd.service.d/pmcd-swap-trial.conf ]")
			h.unitRuns(false)
			h.check("cat /run/pmcd-swap/report", tt.why)
			h.run("journalctl --sync")
			h.check("journalctl -q -o cat -u pmcd-swap-trial.service; tail -n 40 /var/log/pcp/NOTICES", tt.why, "PCP's pmcd comes back")
			if got := h.show("bound.service", "ActiveState"); got != bound {
				t.Errorf("bound.service is %s, want %s", got, bound)
			}
			h.run("systemctl reset-failed && systemctl start bound.service")
		})
	}
}

// What cannot be tried is refused, and nothing changes.
func TestTrialRefused(t *testing.T) {
	h := beside(t, here)
	for _, tt := range []struct{ name, before, after, why string }{
		{"PCP's pmcd is down", "systemctl stop pmcd.service", "systemctl start pmcd.service", "PCP's pmcd does not run"},
		{"a mistake in pmcd.conf", "cp /etc/pcp/pmcd/pmcd.conf /root/ && echo 'x y z' >>/etc/pcp/pmcd/pmcd.conf", "cp /root/pmcd.conf /etc/pcp/pmcd/", "would not start"},
		{"no systemd", "mkdir -p /root/none && mount --bind /root/none /run/systemd", "umount /run/systemd", "needs systemd"},
		{"no mounts", "printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/unshare && chmod 755 /usr/local/bin/unshare", "rm /usr/local/bin/unshare", "unshare -m fails here"},
		{"a full disk", "mkdir -p /run/pmcd-swap && mount -t tmpfs -o size=64k tmpfs /run/pmcd-swap && : >/run/pmcd-swap/x", "umount /run/pmcd-swap", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{h.Machine, t}
			h.run(tt.before)
			text, code := h.Try("swap-pmcd in --trial 10m")
			h.run(tt.after)
			if code != 1 || !strings.Contains(text, tt.why) {
				t.Errorf("exit status %d\n%s", code, text)
			}
			h.unitRuns(false)
		})
	}
}

// Where /usr is read-only, a drop-in mounts this pmcd in the place of PCP's.
func TestReadOnlyUsr(t *testing.T) {
	h := beside(t, here)
	h.run("mount --bind /usr /usr && mount -o remount,bind,ro /usr")
	h.check("swap-pmcd check", "is read-only")
	h.check("swap-pmcd in", "is read-only", "without systemd, still runs PCP's")
	h.run("systemctl restart pmcd.service")
	h.unitRuns(true)
	h.until(`[ "$(pmcdctl status | grep -c ' ready ')" = 9 ]`)
	h.check("swap-pmcd status", "pmcd.service mounts this pmcd", "pmcd.service runs this pmcd")
	h.run("swap-pmcd update && systemctl restart pmcd.service")
	h.unitRuns(true)
	h.run("swap-pmcd out && systemctl restart pmcd.service")
	h.unitRuns(false)
	if text, code := h.Try("ls /etc/systemd/system/pmcd.service.d; swap-pmcd status"); code != 1 || strings.Contains(text, "pmcd-swap") {
		t.Errorf("exit status %d\n%s", code, text)
	}
	// PCP's runs if this one is gone.
	h.run("mkdir /opt/own && cp /usr/local/libexec/pcp/pmcd /opt/own/ && swap-pmcd -b /opt/own/pmcd in && systemctl restart pmcd.service")
	h.unitRuns(true)
	h.run("rm /opt/own/pmcd && systemctl restart pmcd.service")
	h.unitRuns(false)
	h.run("rm /etc/systemd/system/pmcd.service.d/*.conf && systemctl daemon-reload")
	// What PCP's removal leaves goes.
	h.run("swap-pmcd in && mv /etc/pcp.conf /root && swap-pmcd out && mv /root/pcp.conf /etc && [ ! -e /etc/systemd/system/pmcd.service.d/pmcd-swap-mount.conf ]")
	// A trial can be kept there, too.
	h.run("swap-pmcd in --trial 10m")
	h.unitRuns(true)
	h.run("swap-pmcd keep && systemctl restart pmcd.service")
	h.unitRuns(true)
}

// check changes nothing, and compares this pmcd with the one that runs.
func TestSwapCheck(t *testing.T) { eachSystem(t, testSwapCheck) }

func testSwapCheck(t *testing.T, s system) {
	h := beside(t, s)
	// Agents have started, and have written the files that a first fetch makes.
	h.until("pgrep pmdalinux && pgrep pmdakvm && pgrep pmdaxfs && pminfo -f pmcd.agent.status")
	h.fetch()
	before := h.run("ls -lR /var/lib/pcp/config /var/log/pcp/pmcd /run/pcp")
	pid := h.show("pmcd.service", "MainPID")
	h.check("swap-pmcd check --compare 5s 2>&1", "pmdalinux", "at both ends of a trial: bound.service\n", "no differences\n", "docs/compatibility.md: `pmcd.version` is 7.2.1", "no problem was found")
	if after := h.run("ls -lR /var/lib/pcp/config /var/log/pcp/pmcd /run/pcp"); after != before {
		t.Errorf("files were\n%s\nand are\n%s", before, after)
	}
	if got := h.show("pmcd.service", "MainPID"); got != pid {
		t.Errorf("pmcd is process %s, was %s", got, pid)
	}
	if text, code := h.Try("pgrep -l rehearsal || ls -d /run/pmcd-rehearsal"); code == 0 {
		t.Errorf("left: %s", text)
	}
	// A built-in agent that fails, of which PCP's has values.
	h.run(`sed 's|"dso", $1 "_init", "builtin"|"dso", $1 "_init", ($1 == "linux" ? "/etc/passwd" : "builtin")|' /usr/local/sbin/swap-pmcd >/usr/local/sbin/fails && chmod 755 /usr/local/sbin/fails && ! cmp -s /usr/local/sbin/swap-pmcd /usr/local/sbin/fails`)
	if text, code := h.Try("fails check --compare 2s 2>&1"); code != 1 || !strings.Contains(text, "kernel.all.load ") || !strings.Contains(text, "problem: the comparison has failed, or has found differences") {
		t.Errorf("exit status %d\n%s", code, text)
	}
	h.run("cp /etc/pcp/pmcd/pmcd.conf /root/ && echo 'x y z' >>/etc/pcp/pmcd/pmcd.conf")
	if text, code := h.Try("swap-pmcd check"); code != 1 || !strings.Contains(text, "problem: this pmcd does not start") {
		t.Errorf("exit status %d\n%s", code, text)
	}
	h.run("cp /root/pmcd.conf /etc/pcp/pmcd/ && chmod 666 /etc/pcp/pmcd/pmcd.conf")
	h.check("swap-pmcd check 2>&1", "runs as pcp")
}

// The deb need not be installed for a trial, and takes over what is kept.
func TestTrialUnpacked(t *testing.T) {
	h := packaged(t, boot(t, here.with))
	h.run("cp /usr/lib/pcp/bin/pmcd /root/pcps; systemctl start pmcd.service; cd /root && dpkg-deb -x" + deb("pmcd-swap", firstVersion) + " new && ln -s /root/new/usr/sbin/swap-pmcd /usr/local/sbin/ && ln -s /root/new/usr/bin/pmcdctl /usr/local/bin/")
	h.check("swap-pmcd check 2>&1", "no problem was found")
	h.run("swap-pmcd in --trial 10m")
	h.unitRuns(true)
	h.run("swap-pmcd out")
	h.unitRuns(false)
	h.run("swap-pmcd in --trial 10m && swap-pmcd keep && systemctl restart pmcd.service")
	h.swapped(true)
	h.run(apt + "install" + deb("pmcd-swap", firstVersion))
	h.swapped(true)
	h.check("/usr/sbin/swap-pmcd status", "is this pmcd")
	h.run(apt + "remove pmcd-swap")
	h.unitRuns(false)
}
