package installtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repo is the directory of the Makefile.
const repo = "../../../.."

// tree makes a directory that is like a checkout where all has been built, but
// for what is in the programs.
func tree(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	used(t, "Makefile", "etc/*.*", "etc/root", "etc/completions/*", "systemd/*", "docs/*.[18]")
	dir := t.TempDir()
	for _, name := range []string{"Makefile", "agents", "docs", "etc", "systemd"} {
		if err := os.Symlink(filepath.Join(top, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "bin/pmcd"), ours)
	write(t, filepath.Join(dir, "bin/pmcdctl"), ctl)
	write(t, filepath.Join(dir, "bin/pmcd-prometheus"), "exporter")
	used(t, "agents/builtin/pmdas/main.go")
	for _, name := range plugins {
		write(t, filepath.Join(dir, "bin/plugins/pmda_"+name+".so"), name)
	}
	write(t, filepath.Join(dir, "bin/pmdas/pmdas"), "agents")
	write(t, filepath.Join(dir, "bin/pmdas/pmdaopenmetrics"), "openmetrics")
	for _, name := range pmdas {
		if err := os.Symlink("pmdas", filepath.Join(dir, "bin/pmdas/pmda"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// used reads files of the repository that only programs will read: go test
// keeps the results of a package until a file changes that the test has read.
func used(t *testing.T, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(repo, p))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", p, found, err)
		}
		for _, path := range found {
			read(t, path)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// makeIn runs make in dir. The umask is not what is usual.
func makeIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `umask 077; exec make -s "$@"`, "sh"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// list returns what is below dir, as lines "MODE PATH".
func list(t *testing.T, dir string, dirs bool) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && !dirs || path == dir {
			return err
		}
		fi, err := e.Info()
		rel, _ := filepath.Rel(dir, path)
		lines = append(lines, fmt.Sprintf("%v %s", fi.Mode(), rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Agents that are plugins, and those that are links to pmdas.
var (
	plugins = []string{"jbd2", "simple", "trivial", "txmon"}
	pmdas   = []string{"cifs", "jbd2", "kvm", "linux", "mmv", "nfsclient", "pmimport", "pmproxy", "proc", "root", "simple", "trace", "trivial", "txmon", "xfs"}
)

// What is installed below prefix. NAME is each of the agents.
var installed = []string{
	"-rwxr-xr-x bin/pmcd-prometheus",
	"-rwxr-xr-x bin/pmcdctl",
	"-rw-r--r-- lib/systemd/system/pmcd-prometheus.service",
	"-rwxr-xr-x libexec/pcp/plugins/pmda_NAME.so",
	"-rwxr-xr-x libexec/pcp/pmcd",
	"Lrwxrwxrwx libexec/pcp/pmdas/pmdaNAME",
	"-rwxr-xr-x libexec/pcp/pmdas/pmdaopenmetrics",
	"-rwxr-xr-x libexec/pcp/pmdas/pmdas",
	"-rwxr-xr-x sbin/swap-pmcd",
	"-rw-r--r-- share/bash-completion/completions/pmcdctl",
	"-rw-r--r-- share/fish/vendor_completions.d/pmcdctl.fish",
	"-rw-r--r-- share/man/man1/pmcd-prometheus.1",
	"-rw-r--r-- share/man/man1/pmcd.1",
	"-rw-r--r-- share/man/man1/pmcdctl.1",
	"-rw-r--r-- share/man/man8/swap-pmcd.8",
	"-rw-r--r-- share/pmcd/labels.json",
	"-rw-r--r-- share/pmcd/pmcd.conf",
	"-rw-r--r-- share/pmcd/root",
	"-rw-r--r-- share/pmcd/systemd/notify-reload.conf",
	"-rw-r--r-- share/pmcd/systemd/pmdas.conf",
	"-rw-r--r-- share/pmcd/systemd/reload.conf",
	"-rw-r--r-- share/pmcd/systemd/restart.conf",
	"-rw-r--r-- share/pmcd/systemd/watchdog.conf",
	"-rw-r--r-- share/zsh/site-functions/_pmcdctl",
}

// Units are installed only where PCP has none.
var units = []string{
	"-rw-r--r-- lib/systemd/system/pmcd.service",
	"-rw-r--r-- lib/systemd/system/pmcd.socket",
	"-rw-r--r-- lib/sysusers.d/pmcd.conf",
}

// want is the list of what is installed below prefix.
func want(t *testing.T, prefix string, lists ...[]string) []string {
	t.Helper()
	var lines []string
	for _, line := range slices.Concat(lists...) {
		mode, path, _ := strings.Cut(line, " ")
		names := []string{""}
		if strings.Contains(path, "pmda_NAME") {
			names = plugins
		} else if strings.Contains(path, "NAME") {
			names = pmdas
		}
		for _, name := range names {
			lines = append(lines, mode+" "+filepath.Join(prefix, strings.Replace(path, "NAME", name, 1)))
		}
	}
	return lines
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	byPath := func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) }
	slices.SortFunc(got, byPath)
	slices.SortFunc(want, byPath)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The units of a host without PCP go when PCP has come: they would be in force in
// place of PCP's. PCP's own stays.
func TestInstallBeforePCP(t *testing.T) {
	dir := tree(t)
	for _, target := range []string{"install", "uninstall"} {
		for _, own := range []bool{true, false} {
			dest := t.TempDir()
			unit := filepath.Join(dest, "usr/lib/systemd/system/pmcd.service")
			args := []string{"DESTDIR=" + dest, "prefix=/usr"}
			if own {
				makeIn(t, dir, append(args, "install")...)
			} else {
				write(t, unit, "[Service]\nExecStart=/usr/lib/pcp/lib/pmcd start-systemd\n")
			}
			write(t, filepath.Join(dest, "etc/pcp.conf"), "")
			text := makeIn(t, dir, append(args, target)...)
			if _, err := os.Stat(unit); (err == nil) == own {
				t.Errorf("%s, unit of pmcd %v: %v", target, own, err)
			}
			if said := strings.Contains(text, "systemctl daemon-reload"); said != (own && target == "install") {
				t.Errorf("%s, unit of pmcd %v: it prints %q", target, own, text)
			}
			for _, line := range list(t, dest, false) {
				if own && slices.Contains(want(t, "usr", units), line) {
					t.Errorf("%s: %s is left", target, line)
				}
			}
		}
	}
}

func TestInstall(t *testing.T) {
	dir := tree(t)
	tests := []struct {
		name, prefix string
		pcp          bool
		files        [][]string
	}{
		{"without PCP", "usr/local", false, [][]string{installed, units}},
		{"without PCP, in /usr", "usr", false, [][]string{installed, units}},
		{"with PCP", "usr/local", true, [][]string{installed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dest := t.TempDir()
			args := []string{"DESTDIR=" + dest, "prefix=/" + tt.prefix}
			other := filepath.Join(dest, tt.prefix, "share/pmcd/other") // not ours
			files := want(t, tt.prefix, tt.files...)
			if tt.pcp {
				write(t, filepath.Join(dest, "etc/pcp.conf"), "")
				files = append(files, "-rwxr-xr-x etc/pcp.conf")
			}
			// Once, plugins were more, and links were programs.
			libexec := filepath.Join(dest, tt.prefix, "libexec/pcp")
			write(t, filepath.Join(libexec, "plugins/pmda_linux.so"), "older")
			write(t, filepath.Join(libexec, "pmdas/pmdasimple"), "older")
			for range 2 { // again is an upgrade
				makeIn(t, dir, append(args, "install")...)
				compare(t, "installed", list(t, dest, false), slices.Clone(files))
			}
			for _, name := range pmdas { // also below DESTDIR, and for a prefix that moves
				if to, err := os.Readlink(filepath.Join(libexec, "pmdas/pmda"+name)); err != nil || to != "pmdas" {
					t.Errorf("pmda%s is a link to %s, %v", name, to, err)
				}
			}
			for name, first := range map[string]string{
				"bash-completion/completions/pmcdctl": "# bash completion V2 for pmcdctl ", "zsh/site-functions/_pmcdctl": "#compdef pmcdctl\n",
				"fish/vendor_completions.d/pmcdctl.fish": "# fish completion for pmcdctl ",
			} {
				if text := read(t, filepath.Join(dest, tt.prefix, "share", name)); !strings.HasPrefix(text, first) {
					t.Errorf("%s begins with %.40q", name, text)
				}
			}
			if read(t, filepath.Join(dest, tt.prefix, "libexec/pcp/pmcd")) != ours || read(t, filepath.Join(dest, tt.prefix, "bin/pmcdctl")) != ctl {
				t.Error("the programs are not what was built")
			}
			for _, line := range list(t, dest, true) {
				if strings.HasPrefix(line, "d") && !strings.HasPrefix(line, "drwxr-xr-x ") {
					t.Errorf("a directory that not all can read: %s", line)
				}
			}
			if text := read(t, filepath.Join(dest, tt.prefix, "sbin/swap-pmcd")); !strings.Contains(text, "\nnew=/"+tt.prefix+"/libexec/pcp/pmcd\n") {
				t.Error("swap-pmcd does not know where pmcd is")
			}
			if !tt.pcp {
				if text := read(t, filepath.Join(dest, tt.prefix, "lib/systemd/system/pmcd.service")); !strings.Contains(text, "\nExecStart=/"+tt.prefix+"/libexec/pcp/pmcd -F ") {
					t.Error("the unit does not know where pmcd is")
				}
			}
			write(t, other, "")
			makeIn(t, dir, append(args, "uninstall")...)
			left := list(t, dest, false)
			if i := slices.Index(left, "-rwxr-xr-x "+tt.prefix+"/share/pmcd/other"); i < 0 {
				t.Error("a file of another package was removed")
			} else {
				left = slices.Delete(left, i, i+1)
			}
			if tt.pcp {
				left = slices.DeleteFunc(left, func(s string) bool { return strings.HasSuffix(s, "etc/pcp.conf") })
			}
			compare(t, "left", left, nil)
			os.Remove(other)
			makeIn(t, dir, append(args, "uninstall")...) // again is no error
			for _, own := range []string{"share/pmcd", "libexec/pcp"} {
				if _, err := os.Lstat(filepath.Join(dest, tt.prefix, own)); err == nil {
					t.Errorf("%s is left", own)
				}
			}
		})
	}
}

// "make run", which may be beside PCP's pmcd, starts no process that "pmsignal -a pmcd" would
// send a signal to.
func TestRunName(t *testing.T) {
	cmd := exec.Command("make", "-n", "run")
	cmd.Dir = tree(t)
	out, err := cmd.CombinedOutput()
	m := regexp.MustCompile(`exec (\S+) -f `).FindSubmatch(out)
	if err != nil || m == nil || filepath.Base(string(m[1])) == "pmcd" {
		t.Errorf("%v: it runs %q\n%s", err, m, out)
	}
}

// Nothing is installed of what has not been built.
func TestInstallUnbuilt(t *testing.T) {
	dir := tree(t)
	if err := os.Remove(filepath.Join(dir, "bin/plugins/pmda_jbd2.so")); err != nil {
		t.Fatal(err)
	}
	dest := t.TempDir()
	cmd := exec.Command("make", "-s", "install", "DESTDIR="+dest)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "bin/plugins/pmda_jbd2.so is missing: make build plugins pmdas\n") {
		t.Errorf("%v\n%s", err, out)
	}
	compare(t, "installed", list(t, dest, true), nil)
}

// Where PCP is, install has PCP's scripts start pmcd, and uninstall undoes it.
func TestInstallSwaps(t *testing.T) {
	dir := tree(t)
	host := t.TempDir()
	conf := filepath.Join(host, "pcp.conf")
	target := filepath.Join(host, "pcp/bin/pmcd")
	write(t, conf, "PCP_BINADM_DIR="+filepath.Dir(target)+"\n")
	write(t, target, theirs)
	t.Setenv("PCP_CONF", conf)
	args := []string{"prefix=" + filepath.Join(host, "local"), "PCP=" + conf}
	makeIn(t, dir, append(args, "install", "SWAP=")...)
	if read(t, target) != theirs {
		t.Error("swapped although it was not to be")
	}
	makeIn(t, dir, append(args, "install")...)
	if read(t, target) != ours {
		t.Error("not swapped")
	}
	makeIn(t, dir, append(args, "uninstall")...)
	if read(t, target) != theirs {
		t.Error("not swapped back")
	}
	compare(t, "left", list(t, host, false), []string{"-rwxr-xr-x pcp.conf", "-rwxr-xr-x pcp/bin/pmcd"})
}
