package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// There is no host with RPM here: what rpm does is done on one with dpkg. rpmDo defines
// functions for it. "unpack NAME" unpacks a package, and "script NAME KIND N" runs one of its
// scripts with the number of packages that there will be. $v is the version.
const rpmDo = `
v=0.0.1
unpack() { rpm2cpio /root/$1-$v-1.x86_64.rpm | (cd / && cpio --quiet -idmu); }
script() {
	rpm -qp --nosignature --scripts /root/$1-$v-1.x86_64.rpm 2>/dev/null |
		sed -n "/^$2 scriptlet/,/^[a-z]* scriptlet\|^$/{/scriptlet/d; p}" >/root/script
	[ -s /root/script ] && sh -e /root/script "$3"
}
erase() { rpm -qpl --nosignature /root/$1-$v-1.x86_64.rpm 2>/dev/null | while read -r f; do rm "$f"; done; }
`

// The scripts of the package pmcd.
func TestPackageRPM(t *testing.T) {
	h := packaged(t, boot(t, here.without))
	h.run(rpmDo + "unpack pmcd && script pmcd postinstall 1")
	h.served()
	pid := h.show("pmcd.service", "MainPID")
	h.run(rpmDo + "unpack pmcd && script pmcd postinstall 2 && script pmcd preuninstall 1 && script pmcd postuninstall 1")
	h.served()
	if h.show("pmcd.service", "MainPID") == pid {
		t.Error("the upgrade has not restarted pmcd")
	}
	h.run(rpmDo + "script pmcd preuninstall 0 && erase pmcd && script pmcd postuninstall 0")
	if text, code := h.Try("pgrep -x pmcd || find /etc/systemd -name 'pmcd.*' | grep ."); code == 0 {
		t.Errorf("left: %s", text)
	}
}

// The scripts and the drop-in of the package pmcd-swap, with PCP's unit. Without dpkg's
// programs swap-pmcd keeps a copy of PCP's file, which an upgrade of PCP brings back.
func TestPackageSwapRPM(t *testing.T) {
	h := packaged(t, boot(t, here.with))
	const target = "/usr/lib/pcp/bin/pmcd"
	h.run("mv /usr/bin/dpkg-divert /usr/bin/dpkg-divert.away; cp " + target + " /root/pcps; systemctl start pmcd.service")
	h.swapped(false)
	h.run(rpmDo + "unpack pmcd-swap && script pmcd-swap postinstall 1")
	h.swapped(true)
	h.run("cp --remove-destination /root/pcps " + target + " && systemctl restart pmcd.service")
	h.swapped(true)
	if text := h.run("/usr/sbin/swap-pmcd -q update"); text != "" {
		t.Errorf("swap-pmcd -q prints %s", text)
	}
	// A failure does not keep PCP's pmcd from being started.
	h.run("mv /usr/libexec/pcp/pmcd /root/ours && cp --remove-destination /root/pcps " + target + " && systemctl restart pmcd.service")
	h.swapped(false)
	h.run("mv /root/ours /usr/libexec/pcp/pmcd && systemctl restart pmcd.service")
	h.swapped(true)
	// "out" lasts: over restarts and upgrades of both packages.
	h.run("swap-pmcd out && systemctl restart pmcd.service")
	h.swapped(false)
	h.run(rpmDo + "unpack pmcd-swap && script pmcd-swap postinstall 2 && script pmcd-swap preuninstall 1; script pmcd-swap postuninstall 1; systemctl restart pmcd.service")
	h.swapped(false)
	h.run("swap-pmcd in && systemctl restart pmcd.service")
	h.swapped(true)
	h.run(rpmDo + "script pmcd-swap postinstall 2; script pmcd-swap preuninstall 1; script pmcd-swap postuninstall 1")
	h.swapped(true)
	h.run(rpmDo + "script pmcd-swap preuninstall 0; erase pmcd-swap; script pmcd-swap postuninstall 0")
	h.swapped(false)
	h.run("cmp /root/pcps " + target)
}

// lintian has nothing against the packages but what their overrides name. With the plugins,
// this is tested in packagetest.
func TestPackageLintian(t *testing.T) {
	lintian := testutil.NeedProgram(t, "lintian")
	dir := packageDir(t)
	for _, name := range []string{"pmcd", "pmcd-swap", "pmcd-prometheus"} {
		cmd := exec.Command(lintian, "--allow-root", "--fail-on=error,warning", "--tag-display-limit", "0",
			filepath.Join(dir, name+"_"+firstVersion+"_amd64.deb"))
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "unused-override") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
