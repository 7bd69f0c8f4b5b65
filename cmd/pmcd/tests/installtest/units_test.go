package installtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// systemd reports no mistake in the units, alone and with the optional files.
func TestUnits(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "--version").Output()
	if err != nil {
		testutil.Missing(t, err)
	}
	var version int
	if m := regexp.MustCompile(`^systemd (\d+)`).FindSubmatch(out); m != nil {
		version, _ = strconv.Atoi(string(m[1]))
	}
	dir, prefix := tree(t), t.TempDir()
	makeIn(t, dir, "install", "PCP=", "prefix="+prefix)
	system := filepath.Join(prefix, "lib/systemd/system")
	optional, err := filepath.Glob(filepath.Join(prefix, "share/pmcd/systemd/*.conf"))
	if err != nil || len(optional) != 5 {
		t.Fatalf("%v, %v", optional, err)
	}
	verify := func(what string) {
		t.Helper()
		out, err := exec.Command("systemd-analyze", "--man=no", "verify",
			filepath.Join(system, "pmcd.service"), filepath.Join(system, "pmcd.socket"),
			filepath.Join(system, "pmcd-prometheus.service")).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	add := func(name, text string) {
		t.Helper()
		path := filepath.Join(system, "pmcd.service.d", name)
		write(t, path, text)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify("alone")
	for _, path := range optional {
		if filepath.Base(path) == "notify-reload.conf" && version < 253 {
			continue
		}
		add(filepath.Base(path), read(t, path))
		verify("with " + filepath.Base(path))
	}
	// That it does look.
	add("x.conf", "[Service]\nNoSuchDirective=yes\n")
	if out, _ := exec.Command("systemd-analyze", "--man=no", "verify", filepath.Join(system, "pmcd.service")).CombinedOutput(); !strings.Contains(string(out), "NoSuchDirective") {
		t.Errorf("a mistake goes unnoticed:\n%s", out)
	}
}

// An optional file that takes protection from the unit is not named for the opposite, and the page
// says what it does.
func TestExposure(t *testing.T) {
	if out, err := exec.Command("systemd-analyze", "security", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--offline") {
		testutil.Missing(t, "no systemd-analyze with --offline (systemd 250): ", err)
	}
	dir := t.TempDir()
	unit := filepath.Join(dir, "pmcd.service")
	write(t, unit, strings.ReplaceAll(read(t, filepath.Join(repo, "systemd/pmcd.service")), "@PMCD@", "/bin/true"))
	exposure := func() string {
		t.Helper()
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for .*: (\d+\.\d) `).FindSubmatch(out)
		if err != nil || m == nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(m[1])
	}
	page := strings.Join(strings.Fields(read(t, filepath.Join(repo, "docs/installing.md"))), " ")
	alone := exposure()
	for _, name := range []string{"notify-reload.conf", "pmdas.conf"} {
		path := filepath.Join(unit+".d", name)
		write(t, path, read(t, filepath.Join(repo, "systemd", name)))
		with := exposure()
		if want := "`" + name + "` does not harden this pmcd's unit. Without PMDAs, leave it out: `systemd-analyze security` rates the unit " + alone + ", and " + with + " with the file."; with > alone && !strings.Contains(page, want) {
			t.Errorf("docs/installing.md does not say: %s", want)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The manual page has each long option of pmcd -? that C pmcd does not have,
// and each file that is installed for it to tell of.
func TestManual(t *testing.T) {
	page := strings.NewReplacer(`\-`, "-", ".It Fl -", ".It --", ", -", ", --").Replace(read(t, filepath.Join(repo, "docs/pmcd.1")))
	// pmcd(1) of PCP 6.0.3.
	inC := map[string]bool{"config": true, "debug": true, "foreground": true, "help": true, "hostname": true, "interface": true,
		"log": true, "namespace": true, "port": true, "remotecert": true, "reqauth": true, "socket": true,
		"trace": true, "uniqnames": true, "username": true, "verify": true}
	found := regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(read(t, filepath.Join(repo, "cmd/pmcd/internal/cli/usage.go")), -1)
	if len(found) < len(inC) {
		t.Errorf("pmcd -? has only %d long options", len(found))
	}
	for _, m := range found {
		if !inC[m[1]] && !strings.Contains(page, "--"+m[1]) && !strings.Contains(page, "Fl -"+m[1]) {
			t.Errorf("pmcd -? has --%s, the manual page has not", m[1])
		}
	}
	for _, path := range []string{"share/pmcd/pmcd.conf", "share/pmcd/root", "pmdas.conf", "notify-reload.conf", "reload.conf", "restart.conf", "watchdog.conf", "pmcd.service", "pmcd.socket", "swap-pmcd"} {
		if !strings.Contains(page, path) {
			t.Errorf("the manual page does not have %s", path)
		}
	}
}

// Scripts are for the shell of Debian, which is little more than POSIX asks for.
func TestScripts(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"etc/*.sh", "etc/packaging/*.sh", "etc/packaging/scripts/*.*.*"} {
		found, err := filepath.Glob(filepath.Join(repo, pattern))
		if err != nil || len(found) < 4 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		scripts = append(scripts, found...)
		used(t, pattern)
	}
	checker := testutil.NeedProgram(t, "shellcheck")
	cmd := exec.Command(checker, append([]string{"-s", "dash"}, scripts...)...)
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
