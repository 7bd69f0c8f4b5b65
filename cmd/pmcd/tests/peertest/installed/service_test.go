package installed

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// hup tells pmcd to read its configuration again, as scripts do, and waits for
// that.
const hup = `n=$(pmprobe -v pmcd.sighups | cut -d' ' -f3)
pmsignal -a -s HUP pmcd
while [ $(pmprobe -v pmcd.sighups | cut -d' ' -f3) = $n ]; do pmsleep 0.05; done
`

// rc has the rc script do something.
func rc(what string) string { return settled("/etc/init.d/pmcd " + what) }

// settled runs a command that the rc script is in. That may leave a process
// behind that looks for agents to install, which is waited for. So are agents that start.
func settled(command string) string {
	return "{ " + command + `; } >/var/tmp/rc.out 2>&1
code=$?
while pgrep -f '^/bin/sh /etc/init.d/pmcd' >/dev/null; do pmsleep 0.05; done
while pmprobe -v pmcd.agent.status 2>/dev/null | cut -d' ' -f3- | grep -qw 1; do pmsleep 0.05; done
cat /var/tmp/rc.out
exit $code`
}

// withRestart has a script of an agent start pmcd instead of sending it a
// signal, as it does when names were built anew. Without systemd that is for the
// rc script.
func withRestart(script string) string {
	return "cd /var/lib/pcp/pmdas/trivial && sed -i 's/^pmda\\(Install\\|Remove\\)$/forced_restart=true; &/' " + script + ` && old=$(cat /run/pcp/pmcd.pid)
` + settled("PCPQA_SYSTEMD=no ./"+script+`; [ "$old" != "$(cat /run/pcp/pmcd.pid)" ] && echo another pmcd`)
}

// serviceSteps are shell commands, in this order. What they print must be the same with
// C pmcd and with ours, which has more processes: no script may take them for pmcd.
var serviceSteps = []string{
	rc("status"),
	rc("start"),
	rc("status"),
	"pmcd_wait",
	`pmsignal -a -n -s HUP pmcd | sed "s/$(cat /run/pcp/pmcd.pid)/PID/"`,
	`ps -p $(cat /run/pcp/pmcd.pid) -o user=,group=,comm=,args=`,
	"ps -eo user=,args= | grep /[p]mdas/ | grep -v pmcd-dso: | sort",
	"stat -c '%a %U %G %F %n' /run/pcp/pmcd.pid /run/pcp/pmcd.socket /var/log/pcp/pmcd/pmcd.log",
	"head -c 0 /run/pcp/pmcd.pid; wc -l </run/pcp/pmcd.pid",
	"head -1 /var/log/pcp/pmcd/pmcd.log | sed 's/started.*/started/'",
	"pmprobe -v pmcd.agent.status",
	hup + "pmprobe -v pmcd.agent.status; pmprobe kernel.all.load proc.nprocs mmv",
	// Rights that pmcd itself does not have any more.
	"cd /var/lib/pcp/pmdas/trivial && ./Install -e",
	"cd /var/lib/pcp/pmdas/trivial && ./Remove",
	withRestart("Install"),
	"pmprobe trivial; ps -eo user=,args= | grep '[p]mdatrivial'",
	withRestart("Remove"),
	rc("stop"),
	// There is no pmcd, which it starts.
	settled("cd /var/lib/pcp/pmdas/trivial && PCPQA_SYSTEMD=no ./Install -e"),
	"pmprobe trivial; pmprobe -v pmcd.agent.status",
	"kill -KILL $(pgrep -x pmdaproc); pmprobe proc.nprocs >/dev/null 2>&1; " + hup + "pmprobe proc.nprocs; ps -eo user=,args= | grep /[p]mdaproc",
	rc("restart"),
	rc("status"),
	"pmprobe -v pmcd.agent.status",
	rc("stop"),
	rc("status"),
	"ls /run/pcp",
	"tail -1 /var/log/pcp/pmcd/pmcd.log | cut -d' ' -f1-2",
	rc("stop"),
	rc("start-systemd"),
	rc("status"),
	rc("stop-systemd"),
}

// TestPeerService has PCP's rc script start and stop pmcd, in the background and
// with its root helper.
func TestPeerService(t *testing.T) {
	t.Parallel()
	c, ours := peer.BootMachine(t, peer.CPmcd), peer.BootMachine(t, peer.Must(peer.UnderTest())(t))
	for _, s := range serviceSteps {
		bothDo(t, c, ours, "/", peer.Client{Args: []string{"sh", "-c", s}})
		if s == rc("restart") {
			if ps := strings.Join(ours.Processes(), "\n"); strings.Count(ps, "pmcd-root ") != 1 || !strings.Contains(ps, "pmcd-dso: mmv ") {
				t.Errorf("the processes are\n%s", ps)
			}
		}
		if t.Failed() {
			t.Fatalf("C:\n%s\nours:\n%s", c.Log(), ours.Log())
		}
	}
	var left []string
	if !peer.Until(peer.Hangs, func() bool { left = ours.Processes(); return len(left) == 0 }) {
		t.Errorf("processes are left: %q", left)
	}
	if log := ours.Log(); strings.Contains(log, "DATA RACE") {
		t.Error(log)
	}
}
