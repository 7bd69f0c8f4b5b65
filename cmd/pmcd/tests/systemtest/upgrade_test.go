package systemtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// beforeVersion is the version of the packages of an older commit.
const beforeVersion = "0.0.0"

// olderCommit returns the commit whose packages are upgraded: that of the newest tag before
// this commit or, while there is none, the oldest one that has etc/packaging.
func olderCommit(root string) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if tag, err := git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"); err == nil {
		return tag, nil
	}
	text, err := git("log", "--format=%H", "--diff-filter=A", "--no-renames", "--", "etc/packaging/packages.sh")
	if err == nil && text == "" {
		err = errors.New("git does not know the commit that added etc/packaging/packages.sh")
	}
	commits := strings.Fields(text)
	if err != nil {
		return "", err
	}
	return commits[len(commits)-1], nil
}

// packagesBefore makes the packages of the older commit, from its programs and with its
// scripts, and returns their directory.
var packagesBefore = sync.OnceValues(func() (string, error) {
	root, err := peer.ModuleRoot()
	if err != nil {
		return "", err
	}
	commit, err := olderCommit(root)
	if err != nil {
		return "", err
	}
	ours, err := packages()
	if err != nil {
		return "", err
	}
	out := filepath.Join(filepath.Dir(ours), "packages-before")
	src, bin := filepath.Join(out, "src"), filepath.Join(out, "src/bin")
	if err := errors.Join(os.MkdirAll(src, 0o755), placeholders(bin)); err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-ec", `
git archive --output="$3/source.tar" "$1"
tar -C "$2" -xf "$3/source.tar"
cd "$2"
for p in ./cmd/pmcd ./cmd/pmcd/pmcdctl ./cmd/pmcd/pmcd-prometheus; do
	[ ! -d $p ] || go build -buildvcs=false -ldflags "-X main.build=$4" -o bin/${p##*/} $p
done
etc/packaging/packages.sh "$4" amd64 bin "$3"`, "sh", commit, src, out, beforeVersion)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "COMPRESSION=gzip:1", "SOURCE_DATE_EPOCH=1000000000")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("commit %s: %w\n%s", commit, err, text)
	}
	return out, nil
})

// packagedBefore is packaged with the packages of the older commit, too.
func packagedBefore(t *testing.T, h *host) *host {
	t.Helper()
	dir, err := packagesBefore()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "pmcd*.*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if err := copyAll(file, h.Path("/root/"+filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	return packaged(t, h)
}

// runs checks whether the main process of pmcd.service is that of the older commit.
func (h *host) runs(older bool) {
	h.t.Helper()
	text := h.run("/proc/$(systemctl show -P MainPID pmcd.service)/exe --version")
	if is := strings.HasPrefix(text, "pmcd "+beforeVersion+", "); is != older {
		h.t.Errorf("the pmcd of the older commit runs: %v: %s", is, text)
	}
}

// An upgrade from the packages of an older commit.
func TestPackageUpgrade(t *testing.T) {
	if os.Getenv("PMCD_LONG") == "" {
		t.Skip("takes long: make releasetest")
	}
	eachSystem(t, func(t *testing.T, s system) {
		t.Run("pmcd", func(t *testing.T) { testUpgrade(t, s) })
		t.Run("pmcd-swap", func(t *testing.T) { testUpgradeSwap(t, s) })
	})
	t.Run("rpm", testUpgradeRPM)
}

// kept is what an upgrade does not change: the files of the admin and of pmcd, and which
// units are enabled and run.
const kept = `find /etc/default /etc/sysconfig /etc/own /etc/systemd /etc/pcp /etc/pcp.conf /var/lib/pcp/config -type f 2>/dev/null | sort | xargs -r sha256sum
find /etc/systemd -type l -printf '%p %l\n' | sort
for u in pmcd.service pmcd.socket; do systemctl is-enabled $u 2>&1; systemctl is-active $u; done
dpkg-divert --list '*/pmcd'
dpkg -V pcp pcp-conf 2>/dev/null || :`

// unitStates are what an admin does with units before an upgrade.
var unitStates = []struct {
	script string
	active bool
}{
	{"systemctl enable --now pmcd.service", true},
	{"systemctl enable pmcd.socket && systemctl stop pmcd.service && systemctl start pmcd.socket", true},
	{"systemctl disable pmcd.service", true},
	{"systemctl disable --now pmcd.socket pmcd.service", false},
	{"systemctl disable --now pmcd.socket pmcd.service && systemctl mask pmcd.service", false},
}

func testUpgrade(t *testing.T, s system) {
	h := packagedBefore(t, boot(t, s.without))
	for _, state := range unitStates {
		t.Run(state.script, func(t *testing.T) {
			h := &host{h.Machine, t}
			h.run(apt + "install" + deb("pmcd", beforeVersion) + deb("pmcd-plugins", beforeVersion))
			h.served()
			h.ownFiles()
			h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="-c /etc/own/pmcd.conf -n /etc/own/root"`+"\n")
			h.Write(t, "/etc/systemd/system/pmcd.service.d/own.conf", "[Service]\nNice=-1\n")
			h.run("mkdir -p /var/lib/pcp/config/pmda && echo own >/var/lib/pcp/config/pmda/own")
			h.run("systemctl daemon-reload && " + state.script)
			if state.active {
				h.run("systemctl restart pmcd.service")
				h.runs(true)
			}
			was := h.run(kept)
			h.run("[ -f /usr/libexec/pcp/pmdas/pmdaopenmetrics ] && [ ! -L /usr/libexec/pcp/pmdas/pmdasimple ]")
			h.run(apt + "install" + deb("pmcd", secondVersion) + deb("pmcd-plugins", secondVersion) + deb("pmcd-openmetrics", secondVersion))
			h.run("[ -f /usr/libexec/pcp/pmdas/pmdaopenmetrics ] && [ $(readlink /usr/libexec/pcp/pmdas/pmdasimple) = pmdas ] && ! dpkg -V pmcd-plugins pmcd-openmetrics | grep .")
			if is := h.run(kept); is != was {
				t.Errorf("the upgrade has changed\n%s\nto\n%s", was, is)
			}
			if state.active {
				h.runs(false)
				h.check("pmcdctl status", "configuration: /etc/own/pmcd.conf")
			}
			h.run("systemctl unmask pmcd.service")
			h.run(apt + "purge pmcd && rm -r /etc/default/pmcd /etc/own /etc/systemd/system/pmcd.service.d")
			if text := h.run("find /etc/systemd -name 'pmcd*'"); text != "" {
				t.Errorf("left: %s", text)
			}
		})
	}
}

func testUpgradeSwap(t *testing.T, s system) {
	h := packagedBefore(t, boot(t, s.with))
	h.run("echo '# own' >>/etc/pcp/pmcd/pmcd.options && echo '# own' >>/etc/default/pmcd")
	// PCP's unit may start 5 times in 10 seconds, which the states below exceed.
	h.Write(t, "/etc/systemd/system/pmcd.service.d/limit.conf", "[Unit]\nStartLimitIntervalSec=0\n")
	h.run("systemctl daemon-reload")
	for _, state := range unitStates {
		if strings.Contains(state.script, "enable pmcd.socket") {
			continue // PCP has none
		}
		script := strings.ReplaceAll(state.script, " pmcd.socket", "")
		t.Run(script, func(t *testing.T) {
			h := &host{h.Machine, t}
			h.run("systemctl start pmcd.service")
			h.run(apt + "install" + deb("pmcd-swap", beforeVersion))
			h.swapped(true)
			h.runs(true)
			h.run(script)
			was := h.run(kept)
			if !strings.Contains(was, "by pmcd-swap") {
				t.Errorf("the older package has not diverted pmcd:\n%s", was)
			}
			h.run(apt + "install" + deb("pmcd-swap", secondVersion))
			if is := h.run(kept); is != was {
				t.Errorf("the upgrade has changed\n%s\nto\n%s", was, is)
			}
			h.run("systemctl unmask pmcd.service && systemctl start pmcd.service")
			h.swapped(true)
			h.runs(false)
			h.run(apt + "purge pmcd-swap")
			h.swapped(false)
			if text := h.run("dpkg-divert --list '*/pmcd'"); text != "" {
				t.Errorf("left: %s", text)
			}
		})
	}
}

// The files and scripts of the older rpm, and then of this one.
func testUpgradeRPM(t *testing.T) {
	h := packagedBefore(t, boot(t, here.without))
	const older = "v=" + beforeVersion + "\n"
	h.run(rpmDo + older + "unpack pmcd && script pmcd postinstall 1")
	h.runs(true)
	h.run("systemctl disable pmcd.service")
	was := h.run(kept)
	h.run(rpmDo + "unpack pmcd && script pmcd postinstall 2\n" + older + "script pmcd preuninstall 1 && script pmcd postuninstall 1")
	if is := h.run(kept); is != was {
		t.Errorf("the upgrade has changed\n%s\nto\n%s", was, is)
	}
	h.runs(false)

	h = packagedBefore(t, boot(t, here.with))
	h.run("mv /usr/bin/dpkg-divert /usr/bin/dpkg-divert.away; systemctl start pmcd.service")
	h.run(rpmDo + older + "unpack pmcd-swap && script pmcd-swap postinstall 1")
	h.swapped(true)
	h.run(rpmDo + "unpack pmcd-swap && script pmcd-swap postinstall 2\n" + older + "script pmcd-swap preuninstall 1; script pmcd-swap postuninstall 1")
	h.swapped(true)
	if text := h.run("/usr/lib/pcp/bin/pmcd --version"); strings.HasPrefix(text, "pmcd "+beforeVersion+", ") {
		t.Errorf("PCP's unit starts the older pmcd after the upgrade: %s", text)
	}
}
