package systemtest

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// sysvinit is Debian 12 with sysvinit in place of systemd.
var sysvinit = systemOf(func() (string, error) { return peer.ReleaseRoot("bookworm-sysvinit") })

// scriptRuns checks which pmcd PCP's script has started, that it serves, and what the program status
// says of it.
func (h *host) scriptRuns(ours bool, status string) {
	h.t.Helper()
	h.until("pminfo -f kernel.all.load | grep value")
	text := h.run(`grep -ac github.com/gopcp/pmcd/cmd/pmcd /proc/$(cat /run/pcp/pmcd.pid)/exe; ` + status + " status || :")
	if is := !strings.HasPrefix(text, "0\n"); is != ours || strings.Contains(text, "is this pmcd") != ours {
		h.t.Errorf("PCP's script has started this pmcd: %v\n%s", is, text)
	}
}

// Without systemd PCP's script starts the pmcd that is in place. There are no trials.
func TestPackageSysvinit(t *testing.T) {
	if os.Getenv("PMCD_LONG") == "" {
		t.Skip("takes long: make releasetest")
	}
	h := packaged(t, boot(t, sysvinit.with))
	// PCP's package does not enable its service here, although it stops and starts it.
	h.check("cat /proc/1/comm; runlevel; update-rc.d pmcd defaults && service pmcd start", "init\nN 2\n")
	h.run("cd /root && dpkg-deb -x" + deb("pmcd-swap", firstVersion) + " new")
	const swap = "/root/new/usr/sbin/swap-pmcd"
	h.scriptRuns(false, swap)
	h.check(swap+" check 2>&1", "pmdalinux", "no problem was found")
	for do, why := range map[string]string{
		"in --trial 10m":     "in --trial: this needs systemd, which does not run here",
		"check --compare 5s": "check --compare: this needs systemd, which does not run here",
		"keep":               "no trial runs",
	} {
		if text, code := h.Try(swap + " " + do); code != 1 || !strings.Contains(text, why) {
			t.Errorf("swap-pmcd %s: exit status %d\n%s", do, code, text)
		}
	}
	h.run(swap + " in && /etc/init.d/pmcd restart")
	h.scriptRuns(true, swap)
	h.run(upgradePCP)
	h.scriptRuns(true, swap)
	h.run(swap + " out && /etc/init.d/pmcd restart")
	h.scriptRuns(false, swap)

	h.run(apt + "install" + deb("pmcd-swap", firstVersion))
	h.scriptRuns(true, "swap-pmcd")
	pid := h.run("cat /run/pcp/pmcd.pid")
	h.run(apt + "install" + deb("pmcd-swap", secondVersion))
	h.scriptRuns(true, "swap-pmcd")
	if h.run("cat /run/pcp/pmcd.pid") == pid {
		t.Error("the upgrade has not restarted pmcd")
	}
	h.run(upgradePCP)
	h.scriptRuns(true, "swap-pmcd")
	h.run(apt + "remove pmcd-swap")
	h.scriptRuns(false, swap)
	h.run(apt + "install" + deb("pmcd-swap", firstVersion) + " && service pmcd stop && " + apt + "remove pmcd-swap")
	if text, code := h.Try("pgrep -l pmcd"); code == 0 {
		t.Errorf("the package has started pmcd, which did not run: %s", text)
	}
	h.run(apt + "install" + deb("pmcd-swap", firstVersion) + " && " + apt + "purge pcp && dpkg --purge pmcd-swap")
	if text := h.run("dpkg-divert --list '*/pmcd'; ls -d /usr/lib/pcp/bin/pmcd* 2>/dev/null || :"); text != "" {
		t.Errorf("left:\n%s", text)
	}
}
