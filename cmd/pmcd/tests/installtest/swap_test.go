package installtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// What the script takes for the two programs, and pmcdctl.
const (
	ours   = "\x7fELF ... path\tgithub.com/gopcp/pmcd/cmd/pmcd\n"
	ctl    = "\x7fELF ... path\tgithub.com/gopcp/pmcd/cmd/pmcd/pmcdctl\n"
	theirs = "\x7fELF ... libpcp.so.3 ... 1\n"
	newer  = "\x7fELF ... libpcp.so.4 ... 2\n"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// A host is a root directory where PCP is installed.
type host struct {
	t                          *testing.T
	root, target, kept, labels string
	new                        string // our pmcd
}

func newHost(t *testing.T) *host {
	t.Helper()
	return hostAt(t, t.TempDir())
}

func hostAt(t *testing.T, root string) *host {
	t.Helper()
	used(t, "etc/swap-pmcd.sh")
	h := &host{t: t, root: root}
	h.target = filepath.Join(h.root, "usr/lib/pcp/bin/pmcd")
	h.kept = h.target + ".pcp"
	h.new = filepath.Join(t.TempDir(), "pmcd")
	h.labels = filepath.Join(t.TempDir(), "labels")
	write(t, h.new, ours)
	if err := os.Chmod(h.new, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(h.root, "etc/pcp.conf"), "# comment\nPCP_BINADM_DIR=/usr/lib/pcp/bin\nPCP_BIN_DIR=/usr/bin\n")
	// Not there on most hosts that test; it writes down what it is asked.
	write(t, filepath.Join(filepath.Dir(h.labels), "restorecon"), "#!/bin/sh\necho \"$@\" >>"+h.labels+"\n")
	return h
}

// command returns the command that runs the script.
func (h *host) command(verb string) *exec.Cmd {
	cmd := exec.Command("sh", repo+"/etc/swap-pmcd.sh", "-b", h.new, "-r", h.root, verb)
	cmd.Env = append(os.Environ(), "PCP_CONF=/etc/pcp.conf", "PATH="+filepath.Dir(h.labels)+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	return cmd
}

// swap runs the script, which must end with the given status.
func (h *host) swap(verb string, status int) string {
	h.t.Helper()
	cmd := h.command(verb)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		h.t.Errorf("%s: exit status %d, want %d\n%s", verb, got, status, out)
	}
	return string(out)
}

// has checks what is in the two places; "" is nothing.
func (h *host) has(when, target, kept string) {
	h.t.Helper()
	for path, want := range map[string]string{h.target: target, h.kept: kept} {
		if b, _ := os.ReadFile(path); string(b) != want {
			h.t.Errorf("%s: %s is %q, want %q", when, path, b, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.root, "usr/lib/pcp/bin/*.new")); len(left) > 0 {
		h.t.Errorf("%s: %v is left", when, left)
	}
}

// Without dpkg PCP's pmcd is kept as a copy, which an upgrade makes old.
func TestSwapCopy(t *testing.T) {
	h := newHost(t)
	write(t, h.target, theirs)
	h.swap("status", 1)
	for range 2 {
		h.swap("in", 0)
		h.has("in", ours, theirs)
		if fi, err := os.Stat(h.target); err != nil || fi.Mode() != 0o755 {
			t.Errorf("%v, %v", fi.Mode(), err)
		}
		h.swap("in", 0)
		h.has("in again", ours, theirs)
		h.swap("status", 0)
		h.swap("out", 0)
		h.has("out", theirs, "")
		h.swap("out", 0)
		h.has("out again", theirs, "")
		h.swap("update", 0)
		h.has("update after out", theirs, "")
		h.swap("status", 1)
	}
	if got, want := strings.Fields(read(t, h.labels)), slices.Repeat([]string{h.target}, 8); !slices.Equal(got, want) {
		t.Errorf("labels of %v, want %v", got, want)
	}

	h.swap("in", 0)
	write(t, h.new, ours+"2") // an upgrade of ours
	h.swap("update", 0)
	h.has("after an upgrade of ours", ours+"2", theirs)

	os.Remove(h.target)
	write(t, h.target, newer) // an upgrade of PCP
	h.swap("status", 1)
	h.swap("update", 0)
	h.has("update after an upgrade", ours+"2", newer)
	h.swap("out", 0)
	h.has("out after an upgrade", newer, "")
	h.swap("in", 0)
	os.Remove(h.target)
	write(t, h.target, theirs)
	h.swap("out", 0)
	h.has("out, which an upgrade has done", theirs, "")

	fi, err := os.Stat(h.target)
	if err != nil || fi.Mode() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

// When PCP was removed by a package manager that knows nothing of diversions, what
// is left of "in" goes.
func TestSwapRemoved(t *testing.T) {
	h := newHost(t)
	write(t, h.target, theirs)
	h.swap("in", 0)
	os.Remove(filepath.Join(h.root, "etc/pcp.conf"))
	h.swap("status", 3)
	h.swap("out", 0)
	h.has("out", "", "")
	if _, err := os.Stat(filepath.Dir(h.target)); err == nil {
		t.Errorf("%s is left", filepath.Dir(h.target))
	}
	h.swap("out", 0) // nothing to do

	write(t, h.target, theirs) // not by "in"
	h.swap("out", 0)
	h.has("out of another installation", theirs, "")
}

// The script changes nothing that it does not recognize.
func TestSwapRefuses(t *testing.T) {
	const other = "#!/bin/sh\n"
	tests := []struct {
		name               string
		target, kept, ours string
		in, out, status    int
	}{
		{"a script in its place", other, "", ours, 1, 1, 3},
		{"nothing in its place", "", "", ours, 1, 1, 3},
		{"the other is a script", theirs, other, ours, 1, 1, 1},
		{"both are ours", ours, ours, ours, 1, 1, 0},
		{"ours, and PCP's is nowhere", ours, "", ours, 0, 1, 0},
		{"PCP's in place of ours", theirs, "", theirs, 1, 0, 1},
		{"a script in place of ours", theirs, "", other, 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, run := range []struct {
				verb   string
				status int
			}{{"in", tt.in}, {"out", tt.out}, {"status", tt.status}} {
				h := newHost(t)
				write(t, h.new, tt.ours)
				for path, text := range map[string]string{h.target: tt.target, h.kept: tt.kept} {
					if text != "" {
						write(t, path, text)
					}
				}
				os.MkdirAll(filepath.Dir(h.target), 0o755)
				h.swap(run.verb, run.status)
				h.has(run.verb, tt.target, tt.kept)
			}
		})
	}
	h := newHost(t)
	write(t, filepath.Join(h.root, "real"), theirs)
	os.MkdirAll(filepath.Dir(h.target), 0o755)
	if err := os.Symlink(filepath.Join(h.root, "real"), h.target); err != nil {
		t.Fatal(err)
	}
	h.swap("in", 1)
	for _, conf := range []string{"", "PCP_BINADM_DIR=\n", "PCP_BINADM_DIR=relative\n"} {
		write(t, filepath.Join(h.root, "etc/pcp.conf"), conf)
		h.swap("in", 1)
	}
	os.Remove(filepath.Join(h.root, "etc/pcp.conf"))
	h.swap("status", 3)
	h.swap("sideways", 1)
}

// dpkg gives the host a database of packages.
func (h *host) dpkg() {
	h.t.Helper()
	for _, name := range []string{"dpkg", "dpkg-deb", "dpkg-divert"} {
		testutil.NeedProgram(h.t, name)
	}
	testutil.NeedRoot(h.t) // as dpkg does
	write(h.t, filepath.Join(h.root, "var/lib/dpkg/status"), "")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(h.root, "var/lib/dpkg", dir), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
}

// run runs a command that must not fail, and returns what it printed.
func (h *host) run(name string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// install installs or upgrades a package pcp whose only file is pmcd.
func (h *host) install(version, pmcd string) {
	h.t.Helper()
	pkg := h.t.TempDir()
	write(h.t, filepath.Join(pkg, "DEBIAN/control"), "Package: pcp\nVersion: "+version+"\nArchitecture: all\nMaintainer: none <none@example.org>\nDescription: none\n")
	write(h.t, filepath.Join(pkg, "usr/lib/pcp/bin/pmcd"), pmcd)
	deb := filepath.Join(h.t.TempDir(), "pcp.deb")
	h.run("dpkg-deb", "--root-owner-group", "-b", pkg, deb)
	h.run("dpkg", "--root="+h.root, "--log=/dev/null", "-i", deb)
}

func (h *host) diversions() string { return h.run("dpkg-divert", "--root="+h.root, "--list") }

// With dpkg, upgrades of PCP go past our pmcd.
func TestSwapDivert(t *testing.T) {
	h := newHost(t)
	h.dpkg()
	install, diversions := h.install, h.diversions
	install("1", theirs)
	for range 2 {
		h.swap("in", 0)
		h.has("in", ours, theirs)
		h.swap("in", 0)
		h.has("in again", ours, theirs)
		h.swap("out", 0)
		h.has("out", theirs, "")
		h.swap("out", 0)
		h.has("out again", theirs, "")
		h.swap("update", 0)
		h.has("update after out", theirs, "")
		if d := diversions(); d != "" {
			t.Errorf("a diversion is left: %s", d)
		}
	}
	h.swap("in", 0)
	install("2", newer)
	h.has("after an upgrade", ours, newer)
	h.swap("update", 0)
	h.has("update after an upgrade", ours, newer)
	h.swap("out", 0)
	h.has("out after an upgrade", newer, "")
	install("1", theirs)
	h.has("after the next one", theirs, "")

	// As an older version of the script left it, if it was killed.
	h.swap("in", 0)
	os.Remove(h.target)
	h.swap("in", 0)
	h.has("in after half of one", ours, theirs)
	os.Remove(h.target)
	h.swap("out", 0)
	h.has("out after half of one", theirs, "")

	// A user has copied one or the other by hand.
	write(t, h.target, ours)
	write(t, h.new, ours+"2")
	h.swap("in", 1)
	h.has("ours without a diversion", ours, "")
	write(t, h.target, theirs)
	h.swap("in", 0)

	// An "in" or "out" was killed, and then PCP was upgraded: what is kept is the newer.
	write(t, h.target, theirs)
	install("2", newer)
	h.has("an upgrade after that", theirs, newer)
	h.swap("in", 0)
	h.has("in after that", ours+"2", newer)
	write(t, h.target, theirs)
	h.swap("out", 0)
	h.has("out after that", newer, "")

	// PCP is removed while ours is in its place.
	h.swap("in", 0)
	h.run("dpkg", "--root="+h.root, "--log=/dev/null", "-r", "pcp")
	h.has("PCP removed", ours+"2", "")
	h.swap("out", 0)
	h.has("out after that", "", "")
	if d := diversions(); d != "" {
		t.Errorf("a diversion is left: %s", d)
	}

	// Then an admin removed its directory, too. dpkg-divert speaks German here.
	install("1", theirs)
	h.swap("in", 0)
	h.run("dpkg", "--root="+h.root, "--log=/dev/null", "-r", "pcp")
	os.Remove(h.target)
	os.Remove(filepath.Join(h.root, "etc/pcp.conf"))
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("LANGUAGE", "de")
	h.swap("out", 0)
	if d := diversions(); d != "" {
		t.Errorf("a diversion is left: %s", d)
	}
}

// The script can tell the programs from each other.
func TestPeerSwapKnows(t *testing.T) {
	peer.Require(t)
	pmcd, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.new = pmcdctl
	write(t, h.target, read(t, peer.CPmcd))
	h.swap("in", 1)
	h.new = pmcd
	write(t, h.target, read(t, peer.CPmcd))
	c := read(t, h.target)
	h.swap("in", 0)
	h.has("in", read(t, pmcd), c)
	h.swap("out", 0)
	h.has("out", c, "")
}

// What a command line asks for is done, or refused.
func TestSwapArguments(t *testing.T) {
	h := newHost(t)
	write(t, h.target, theirs)
	for _, tt := range []struct {
		args   string
		status int
		text   string
	}{
		{"", 2, "usage: swap-pmcd [-q]"},
		{"in --trial", 2, "usage: "},
		{"out --trial 10m", 2, "usage: "},
		{"status --compare 5m", 2, "usage: "},
		{"in --trial 10", 1, "10 is no time such as 90s, 10m or 2h"},
		{"in --trial 0m", 1, "0m is no time"},
		{"check --compare 5d", 1, "5d is no time"},
		{"in --trial 10m", 1, "in --trial: not with -r"},
		{"check", 1, "check: not with -r"},
		{"keep", 1, "no trial runs"},
	} {
		cmd := exec.Command("sh", append([]string{repo + "/etc/swap-pmcd.sh", "-b", h.new, "-r", h.root}, strings.Fields(tt.args)...)...)
		cmd.Env = append(os.Environ(), "PCP_CONF=/etc/pcp.conf")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.status || !strings.Contains(string(out), tt.text) {
			t.Errorf("%s: exit status %d, want %d with %q\n%s", tt.args, code, tt.status, tt.text, out)
		}
	}
	h.has("all of that", theirs, "")
}

// The module for SELinux is a problem only where PCP's file has the type that the module is for.
func TestSwapCheckSELinux(t *testing.T) {
	stat, err := exec.LookPath("stat")
	if err != nil {
		t.Fatal(err)
	}
	const pcp = "system_u:object_r:pcp_pmcd_exec_t:s0"
	for _, tt := range []struct {
		name, mode, label, modules string
		status                     int
	}{
		{"enforcing, with PCP's types", "Enforcing", pcp, "pcp", 1},
		{"the same, with the module", "Enforcing", pcp, "pcp\npmcd-go", 0},
		{"enforcing, without PCP's types", "Enforcing", "system_u:object_r:bin_t:s0", "base", 0},
		{"permissive", "Permissive", pcp, "pcp", 0},
		{"off", "Disabled", "?", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			write(t, h.target, theirs)
			write(t, h.new, "#!/bin/sh\nexit 0\n"+ours)
			conf := filepath.Join(h.root, "etc/pcp.conf")
			write(t, conf, "PCP_BINADM_DIR="+filepath.Dir(h.target)+"\n")
			bin := filepath.Dir(h.labels)
			for name, text := range map[string]string{
				"getenforce": "echo " + tt.mode,
				"semodule":   "printf '" + tt.modules + "\\n'",
				"stat":       `case "$*" in *%C*) echo '` + tt.label + `' ;; *) exec ` + stat + ` "$@" ;; esac`,
			} {
				write(t, filepath.Join(bin, name), "#!/bin/sh\n"+text+"\n")
			}
			cmd := exec.Command("sh", repo+"/etc/swap-pmcd.sh", "-b", h.new, "check")
			cmd.Env = append(os.Environ(), "PCP_CONF="+conf, "PATH="+bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
			out, _ := cmd.CombinedOutput()
			says := strings.Contains(string(out), "the module pmcd-go is not loaded")
			if code := cmd.ProcessState.ExitCode(); code != tt.status || says != (code == 1) {
				t.Errorf("exit status %d, want %d\n%s", code, tt.status, out)
			}
		})
	}
}
