package systemtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/booted"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// Versions of the packages: the second one is an upgrade.
const (
	firstVersion  = "0.0.1"
	secondVersion = "0.0.2"
)

// packages makes the packages of both versions and returns their directory. Plugins and
// programs of agents are placeholders: what is in them is not tested here.
var packages = sync.OnceValues(func() (string, error) {
	pmcd, err := program()
	if err != nil {
		return "", err
	}
	pmcdctl, err := peer.Plain("pmcdctl", "./cmd/pmcd/pmcdctl")
	if err != nil {
		return "", err
	}
	exporter, err := peer.Plain("pmcd-prometheus", "./cmd/pmcd/pmcd-prometheus")
	if err != nil {
		return "", err
	}
	root, err := peer.ModuleRoot()
	if err != nil {
		return "", err
	}
	out := filepath.Join(filepath.Dir(pmcdctl), "packages")
	bin := filepath.Join(out, "bin")
	err = placeholders(bin)
	for name, program := range map[string]string{"pmcd": pmcd, "pmcdctl": pmcdctl, "pmcd-prometheus": exporter} {
		// As in a release.
		text, e := exec.Command("strip", "-o", filepath.Join(bin, name), program).CombinedOutput()
		if e != nil {
			err = errors.Join(err, e, errors.New(string(text)))
		}
	}
	for version, kinds := range map[string]string{firstVersion: "deb rpm", secondVersion: "deb"} {
		cmd := exec.Command("etc/packaging/packages.sh", version, "amd64", bin, out)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "KINDS="+kinds, "COMPRESSION=gzip:1", "SOURCE_DATE_EPOCH=1000000000")
		if text, e := cmd.CombinedOutput(); e != nil {
			err = errors.Join(err, e, errors.New(string(text)))
		}
	}
	return out, err
})

// packageDir returns the directory of packages.
func packageDir(t *testing.T) string {
	t.Helper()
	peer.NeedPackager(t)
	dir, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// placeholders writes files in the place of plugins and programs of agents.
func placeholders(bin string) error {
	var err error
	for _, name := range []string{"plugins/pmda_simple.so", "pmdas/pmdas", "pmdas/pmdaopenmetrics"} {
		path := filepath.Join(bin, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o755))
	}
	return errors.Join(err, os.Symlink("pmdas", filepath.Join(bin, "pmdas/pmdasimple")))
}

// packaged boots a host with the files of the packages in /root.
func packaged(t *testing.T, h *host) *host {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(packageDir(t), "pmcd*.*"))
	if err != nil || len(files) != 15 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if err := copyAll(file, h.Path("/root/"+filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	// In a container there may be files that keep packages from starting services.
	h.run("rm -f /usr/sbin/policy-rc.d")
	return h
}

// apt is what an admin runs. There is no network.
const apt = "apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 "

// deb returns the path of a package on a host.
func deb(name, version string) string { return " /root/" + name + "_" + version + "_amd64.deb" }

// served checks that the pmcd of package pmcd runs, and will after a reboot.
func (h *host) served() {
	h.t.Helper()
	h.check("pmcdctl status", "user pcp", "configuration: embedded")
	h.check("systemctl is-active pmcd.service; systemctl is-enabled pmcd.service; systemctl list-dependencies --plain multi-user.target",
		"active\nenabled\n", " pmcd.service\n")
}

// The package on a host without PCP: installed, configured, upgraded, removed, installed
// again and purged.
func TestPackage(t *testing.T) { eachSystem(t, testPackage) }

func testPackage(t *testing.T, s system) {
	h := packaged(t, boot(t, s.without))
	h.run(apt + "install" + deb("pmcd", firstVersion))
	h.served()
	if text, code := h.Try("dpkg -L pmcd | grep -e ^/etc/default -e ^/etc/sysconfig"); code == 0 {
		t.Errorf("it ships %s", text)
	}
	h.check("dpkg -L pmcd; cat /usr/share/bash-completion/completions/pmcdctl /usr/share/pmcd/pmcd.conf", "/man1/pmcd.1.gz\n", "/man1/pmcdctl.1.gz\n", "__start_pmcdctl", "linux_init")

	h.ownFiles()
	h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="-c /etc/own/pmcd.conf -n /etc/own/root -i INADDR_ANY"`+"\n")
	h.run("systemctl restart pmcd.service")
	h.check("pmcdctl status", "configuration: /etc/own/pmcd.conf")
	pid := h.show("pmcd.service", "MainPID")
	h.run(apt + "install" + deb("pmcd", secondVersion) + deb("pmcd-plugins", secondVersion))
	h.check("pmcdctl status; ls /usr/libexec/pcp/plugins", "configuration: /etc/own/pmcd.conf", "pmda_simple.so")
	if h.show("pmcd.service", "MainPID") == pid {
		t.Error("the upgrade has not restarted pmcd")
	}
	h.run(apt + "remove pmcd-plugins")
	if text, code := h.Try(apt + "install" + deb("pmcd-plugins", firstVersion)); code == 0 {
		t.Errorf("the plugins are of another build than pmcd:\n%s", text)
	}

	h.run(apt + "remove pmcd")
	if text, code := h.Try("pgrep -x pmcd || ls /usr/libexec/pcp /usr/lib/systemd/system/pmcd.service"); code == 0 {
		t.Errorf("left: %s", text)
	}
	h.run("rm /etc/default/pmcd && " + apt + "install" + deb("pmcd", secondVersion))
	h.served()
	h.run(apt + "purge pmcd")
	if text := h.run("find /etc/systemd /usr/lib/systemd /usr/libexec/pcp /usr/share/pmcd /var/lib/pcp /run/pcp -name '*pmcd*' 2>/dev/null || :"); text != "" {
		t.Errorf("left:\n%s", text)
	}
}

// The commands of the documents have systemd listen, although the package has started pmcd.
func TestPackageSocket(t *testing.T) { eachSystem(t, testPackageSocket) }

func testPackageSocket(t *testing.T, s system) {
	h := packaged(t, boot(t, s.without))
	h.run(apt + "install" + deb("pmcd", firstVersion))
	h.served()
	if text, code := h.Try("systemctl enable --now pmcd.socket"); code == 0 {
		t.Errorf("systemd starts the sockets of a service that runs: the page needs no other way\n%s", text)
	}
	for _, command := range commandsAfter(t, "docs/installing.md", "after the installation of the package") {
		h.run(command)
	}
	h.served()
	h.check("systemctl is-active pmcd.socket; systemctl is-enabled pmcd.socket", "active\nenabled\n")
	pid := h.show("pmcd.service", "MainPID")
	h.run("systemctl restart pmcd.service && pmcdctl status")
	if h.show("pmcd.service", "MainPID") == pid {
		t.Error("pmcd was not restarted")
	}
}

// Clients on another machine get values from either package.
func TestPackageFromOutside(t *testing.T) {
	eachSystem(t, func(t *testing.T, s system) {
		client := boot(t, here.with)
		h := packaged(t, boot(t, s.without))
		h.connect(client, "10.9.0.1/24", "10.9.0.2/24")
		h.Write(t, "/etc/sysconfig/pmcd", `PMCD_OPTIONS="-i INADDR_ANY"`+"\n")
		h.run(apt + "install" + deb("pmcd", firstVersion))
		h.served()
		client.check("pminfo -h 10.9.0.1 -f kernel.all.load", `"1 minute"] value `)

		h = packaged(t, boot(t, s.with))
		h.connect(client, "10.9.1.1/24", "10.9.1.2/24")
		h.run("echo PMCD_LOCAL=0 >>/etc/default/pmcd && systemctl start pmcd.service && " + apt + "install" + deb("pmcd-swap", firstVersion))
		h.swapped(true)
		client.check("pminfo -h 10.9.1.1 -f kernel.all.load", `"1 minute"] value `)
	})
}

// connect is a cable between two machines, whose addresses are given.
func (h *host) connect(other *host, address, otherAddress string) {
	h.t.Helper()
	name := "eth" + strings.Split(address, ".")[2]
	out, err := exec.Command("ip", "link", "add", name, "netns", strconv.Itoa(h.PID()), "type", "veth",
		"peer", "name", name, "netns", strconv.Itoa(other.PID())).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	for m, a := range map[*host]string{h: address, other: otherAddress} {
		m.run("ip addr add " + a + " dev " + name + " && ip link set " + name + " up")
	}
}

// The package takes the place of PCP, of which the libraries and files stay, and serves
// when those are purged, too, and after the next boot.
func TestPackageAfterPCP(t *testing.T) { eachSystem(t, testPackageAfterPCP) }

func testPackageAfterPCP(t *testing.T, s system) {
	h := packaged(t, boot(t, s.with))
	h.run("systemctl start pmcd.service")
	h.run(apt + "install" + deb("pmcd", firstVersion))
	h.check("dpkg-query -W -f '${db:Status-Abbrev}' pcp pcp-conf; ls /etc/pcp.conf /etc/pcp/pmcd/pmcd.conf /etc/default/pmcd", "rc ii ")
	h.served()
	h.run(apt + "purge pcp")
	h.served()
	h.run("systemctl restart pmcd.service")
	h.served()
	layer, err := h.Save()
	if err != nil {
		t.Fatal(err)
	}
	again := boot(t, func() (string, booted.Layer, error) {
		root, _, err := s.with()
		return root, layer, err
	})
	again.run("systemctl start pmcd.service")
	again.served()
	// And back: a package of PCP would be installed here.
	again.run(apt + "purge pmcd")
	again.check("getent passwd pcp", "pcp")
}

// upgradePCP makes a package of the PCP that is installed and installs it again, for which
// dpkg does the same as for an upgrade.
const upgradePCP = `set -e
rm -rf /root/pcp && mkdir -p /root/pcp/DEBIAN && cd /root/pcp
dpkg -L pcp | grep '^/' | grep -vxF -e /. -e /lib | tar -C / --no-recursion --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf -
f=usr/lib/pcp/bin/pmcd
[ ! -e /$f.pcp ] || cp -a /$f.pcp $f
dpkg-query -s pcp | sed '/^Status:/d; /^Conffiles:/,/^Description:/{ /^Conffiles:/d; /^ [/]/d }' >DEBIAN/control
for s in preinst postinst prerm postrm conffiles; do cp /var/lib/dpkg/info/pcp.$s DEBIAN/$s; done
cd .. && dpkg-deb -Znone -b pcp pcp.deb >/dev/null && dpkg --force-confold -i pcp.deb`

// swapped checks which pmcd PCP's unit has started.
func (h *host) swapped(ours bool) {
	h.t.Helper()
	h.until("pminfo -f pmcd.build")
	text := h.run("grep -ac github.com/gopcp/pmcd/cmd/pmcd /usr/lib/pcp/bin/pmcd || :; pmcdctl status 2>&1 || :")
	if is := !strings.HasPrefix(text, "0\n"); is != ours {
		h.t.Errorf("the pmcd that PCP's script starts is of this package: %v\n%s", is, text)
	}
	pid := h.show("pmcd.service", "MainPID")
	exe := strings.TrimSpace(h.run("readlink /proc/" + pid + "/exe"))
	if exe != "/usr/lib/pcp/bin/pmcd" {
		h.t.Errorf("process %s runs %s", pid, exe)
	}
}

// pmcd-swap has PCP's unit start this pmcd, whatever is upgraded, and gives PCP's back.
func TestPackageSwap(t *testing.T) { eachSystem(t, testPackageSwap) }

func testPackageSwap(t *testing.T, s system) {
	h := packaged(t, boot(t, s.with))
	h.run("systemctl start pmcd.service")
	h.swapped(false)
	h.run(apt + "install" + deb("pmcd-swap", firstVersion))
	h.swapped(true)
	h.check("dpkg-divert --list '*/pmcd'; dpkg -L pmcd-swap", "by pmcd-swap", "/man1/pmcd.1go.gz\n", "/man8/pmcd-swap.8.gz\n")
	h.run(upgradePCP)
	h.swapped(true)
	h.run(apt + "install" + deb("pmcd-swap", secondVersion))
	h.swapped(true)
	// Only hosts with SELinux have restorecon; this one writes down what it is asked.
	h.run(`printf '#!/bin/sh\necho "$@" >>/root/labels\n' >/usr/sbin/restorecon && chmod 755 /usr/sbin/restorecon`)
	h.run(apt + "remove pmcd-swap")
	h.swapped(false)
	h.check("cat /root/labels", "/usr/lib/pcp/bin/pmcd\n")
	if text := h.run("dpkg-divert --list '*/pmcd'; ls -d /usr/lib/pcp/bin/pmcd.pcp 2>/dev/null || :; dpkg -V pcp | grep bin/pmcd || :"); text != "" {
		t.Errorf("left:\n%s", text)
	}
}

// The commands of docs/swapping.md do what the page says.
func TestPackageSwapPage(t *testing.T) {
	h := packaged(t, boot(t, here.with))
	h.run("systemctl start pmcd.service")
	for _, heading := range []string{"## Before", "## Swap", "## Back"} {
		for _, command := range blockAfter(t, "docs/swapping.md", "\n"+heading+"\n") {
			command = strings.ReplaceAll(command, "VERSION", firstVersion)
			if rest, ok := strings.CutPrefix(command, "apt "); ok {
				command = apt + rest
			}
			if text := h.run("cd /root && " + command); strings.Contains(command, "diff") && text != "" {
				t.Errorf("%s: %s\n%s", heading, command, text)
			}
		}
		h.swapped(heading == "## Swap")
	}
}

// Whatever is purged first, nothing is left, and a later PCP runs its own pmcd.
func TestPackageSwapPurged(t *testing.T) { eachSystem(t, testPackageSwapPurged) }

func testPackageSwapPurged(t *testing.T, s system) {
	for _, how := range []string{
		apt + "purge pcp",
		"dpkg --purge pmcd-swap && " + apt + "purge pcp",
		"dpkg --force-depends --purge pcp && dpkg --purge pmcd-swap",
	} {
		t.Run(how, func(t *testing.T) {
			h := packaged(t, boot(t, s.with))
			h.run("systemctl start pmcd.service")
			h.run(apt + "install" + deb("pmcd-swap", firstVersion))
			h.swapped(true)
			h.run(how)
			h.run("dpkg --purge pmcd-swap 2>&1 || :")
			if text := h.run("dpkg-divert --list '*/pmcd'; ls -d /usr/lib/pcp/bin/pmcd* 2>/dev/null || :"); text != "" {
				t.Errorf("left:\n%s", text)
			}
		})
	}
}

// pmcd-swap takes over what "make install" has done. swap-pmcd leaves it alone then.
func TestPackageSwapTakesOver(t *testing.T) { eachSystem(t, testPackageSwapTakesOver) }

func testPackageSwapTakesOver(t *testing.T, s system) {
	h := packaged(t, boot(t, s.with))
	h.install("")
	h.check("dpkg-divert --list '*/pmcd'", "local diversion")
	h.run("systemctl start pmcd.service")
	h.run(apt + "install" + deb("pmcd-swap", firstVersion))
	h.swapped(true)
	h.check("dpkg-divert --list '*/pmcd'", "by pmcd-swap")
	for _, do := range []string{"in", "out"} {
		if text, code := h.Try("/usr/local/sbin/swap-pmcd " + do); code != 1 || !strings.Contains(text, "package pmcd-swap has diverted") {
			t.Errorf("swap-pmcd %s: exit status %d\n%s", do, code, text)
		}
	}
	for _, target := range []string{"install", "uninstall"} {
		do := "make -s -C " + tree + " PLUGINS= PMDAS= " + target
		text, code := h.Try(do)
		_, hint, _ := strings.Cut(text, "to leave PCP's pmcd as it is: make ")
		if code == 0 || strings.TrimSpace(strings.SplitN(hint, "\n", 2)[0]) != target+" SWAP=" {
			t.Errorf("make %s: exit status %d\n%s", target, code, text)
		}
		h.run(do + " SWAP=")
	}
	h.install("SWAP=")
	h.swapped(true)
	h.run("dpkg --purge pmcd-swap")
	h.swapped(false)
	h.run("/usr/local/sbin/swap-pmcd in")
}
