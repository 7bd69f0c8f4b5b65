package installtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// systemd finds nothing to say about the units, alone and with the optional
// files.
func TestUnits(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "--version").Output()
	if err != nil {
		t.Skip(err)
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
			filepath.Join(system, "pmcd.service"), filepath.Join(system, "pmcd.socket")).CombinedOutput()
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

// The manual page has each option of pmcd -?, and each file that is installed for it
// to tell of.
func TestManual(t *testing.T) {
	page := read(t, filepath.Join(repo, "docs/pmcd.1"))
	_, options, _ := strings.Cut(page, ".Sh OPTIONS\n")
	options, _, _ = strings.Cut(options, "\n.Sh ")
	found := regexp.MustCompile(`(?m)^  +(?:-(\S)(?:, | ))?(?:--([a-z-]+))?`).FindAllStringSubmatch(usage(t), -1)
	n := 0
	for _, m := range found {
		for _, option := range []string{m[1], "-" + m[2]} {
			if option == "" || option == "-" {
				continue
			}
			n++
			if option == "?" {
				option = `\&?`
			}
			if !regexp.MustCompile(`(?m)^\.It (.* )?Fl ` + regexp.QuoteMeta(option) + `( |$)`).MatchString(options) {
				t.Errorf("pmcd -? has -%s, the manual page has not", option)
			}
		}
	}
	if n < 45 {
		t.Errorf("pmcd -? has only %d options", n)
	}
	for _, path := range []string{"share/pmcd/pmcd.conf", "share/pmcd/root", "hardening.conf", "notify-reload.conf", "reload.conf", "restart.conf", "watchdog.conf", "pmcd.service", "pmcd.socket", "swap-pmcd"} {
		if !strings.Contains(page, path) {
			t.Errorf("the manual page does not have %s", path)
		}
	}
	if _, err := exec.LookPath("mandoc"); err == nil {
		for _, name := range []string{"pmcd.1", "pmcdctl.1", "swap-pmcd.8"} {
			out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", filepath.Join(repo, "docs", name)).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}

// usage returns what pmcd -? prints.
func usage(t *testing.T) string {
	t.Helper()
	for _, file := range goFiles(t, filepath.Join(repo, "cmd/pmcd")) {
		if _, text, ok := strings.Cut(read(t, file), "usageText = `"); ok {
			text, _, _ = strings.Cut(text, "`")
			return text
		}
	}
	t.Fatal("cmd/pmcd has no usageText")
	return ""
}

// goFiles returns the Go files below dir.
func goFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Scripts are for the shell of Debian, which is little more than POSIX asks for.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(repo, "etc/*.sh"))
	if err != nil || len(scripts) < 4 {
		t.Fatalf("%v, %v", scripts, err)
	}
	used(t, "etc/*.sh")
	checker, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(checker, append([]string{"-s", "dash"}, scripts...)...)
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
