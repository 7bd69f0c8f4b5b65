package docstest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// swapArgs are the arguments of swap-pmcd.
var swapArgs = regexp.MustCompile(`^(in( --trial \d+[smh])?|out|update|status|keep|check( --compare \d+[smh])?)( --exclude [a-z.]+)*$`)

// bin is the directory of the programs, once programs has built them.
var bin string

// programs builds pmcd, pmcdctl and pmcd-prometheus into bin.
var programs = sync.OnceValue(func() error {
	for name, pkg := range map[string]string{"pmcd": "cmd/pmcd", "pmcdctl": "cmd/pmcd/pmcdctl", "pmcd-prometheus": "cmd/pmcd/pmcd-prometheus"} {
		path := filepath.Join(bin, name)
		if _, err := os.Stat(filepath.Join(repo, pkg)); err != nil {
			if err := os.Symlink("pmcd", path); err != nil { // pmcd is pmcdctl, too
				return err
			}
			continue
		}
		cmd := exec.Command("go", "build", "-o", path, "./"+pkg)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	return nil
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "docstest"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		return m.Run()
	}())
}

// run runs a command, or a script of the shell, and returns what it printed.
func run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	if err := programs(); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	if own := filepath.Join(bin, args[0]); slices.Contains([]string{"pmcd", "pmcdctl", "pmcd-prometheus"}, args[0]) {
		args[0] = own
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PMCD="+root, "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What documents say in blocks of the shell marked "test" works, in the order of a
// document and in a directory of its own, with the files that it shows before. Such
// a block needs neither root nor PCP, and ends by itself.
func TestMarkedBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds other modules: make ci")
	}
	testutil.NeedModules(t)
	// go test keeps the results of a package until a file changes that a test has read.
	goFiles(t, "agents", "cmd", "daemon", "internal", "pdu", "pmcdconf", "pmnsload")
	n := 0
	for name, text := range documents(t) {
		blocks, _ := split(text)
		dir := t.TempDir()
		for _, b := range blocks {
			_, what, _ := strings.Cut(b.info, " ")
			if file, ok := strings.CutPrefix(what, "file="); ok {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(b.text), 0o644); err != nil {
					t.Error(err)
				}
				continue
			}
			if what == "" {
				continue
			}
			if b.info != "sh test" {
				t.Errorf("%s:%d: a block is marked %q", name, b.line, b.info)
				continue
			}
			n++
			if out, err := run(t, dir, "sh", "-exc", b.text); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d blocks are marked", n)
	}
}

// Of other commands in blocks of the shell the parts are there: the targets of make,
// options of pmcd, commands and options of pmcdctl, units of systemd, packages of go
// test.
func TestCommands(t *testing.T) {
	n := 0
	for name, text := range documents(t) {
		blocks, _ := split(text)
		for _, b := range blocks {
			if b.info != "sh" {
				continue
			}
			line := b.line
			for text := range strings.Lines(b.text) {
				text, _, _ = strings.Cut(text, " #")
				for command := range strings.SplitSeq(text, "&&") {
					n++
					if err := checkCommand(t, command); err != nil {
						t.Errorf("%s:%d: %s: %v", name, line, strings.TrimSpace(command), err)
					}
				}
				line++
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d commands were found", n)
	}
}

var option = regexp.MustCompile(`^--?[A-Za-z?][a-z-]*`)

// others are commands that are not ours.
var others = []string{"go", "pminfo", "pmstore", "journalctl", "systemd-sysusers", "git", "cd", "install", "setpriv",
	"chmod", "chown", "usermod", "saslpasswd2", "sasldblistusers2", "testsaslauthd", "curl",
	"checkmodule", "semodule_package", "semodule", "tar", "podman", "kubectl", "kill", "pcp", "apt", "dpkg-deb", "dpkg-buildpackage", "rpmbuild"}

// quoted is an assignment whose value may have blanks.
var quoted = regexp.MustCompile(`\w+="[^"]*"`)

// checkCommand returns what is wrong with a command.
func checkCommand(t *testing.T, command string) error {
	words := strings.Fields(quoted.ReplaceAllString(command, ""))
	for len(words) > 0 && (words[0] == "sudo" || strings.Contains(words[0], "=") || strings.HasPrefix(words[0], "#")) {
		if words[0][0] == '#' {
			return nil
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	args := words[1:]
	if name := filepath.Base(words[0]); slices.Contains([]string{"pmcd", "pmcdctl", "swap-pmcd"}, name) {
		words[0] = name
	}
	switch words[0] {
	case "make":
		// What -n prints is not run, but a target that is not there is an error.
		args = slices.DeleteFunc(args, func(a string) bool { return strings.ContainsAny(a, "=-") })
		out, err := run(t, repo, append([]string{"make", "-n", "DESTDIR=/nonexistent", "GO=true", "MAKE=true"}, args...)...)
		if err != nil && !strings.Contains(out, "is missing: make build") {
			return fmt.Errorf("%w\n%s", err, out)
		}
	case "pmcd":
		return checkOptions(t, args, "pmcd", "--help")
	case "bin/pmcd-prometheus", "pmcd-prometheus":
		return checkOptions(t, args, "pmcd-prometheus", "--help")
	case "pmcdctl":
		if len(args) == 0 {
			return nil
		}
		help := []string{"pmcdctl", args[0], "--help"}
		if _, err := run(t, repo, slices.Clone(help)...); err != nil {
			return err
		}
		if !strings.Contains(read(t, "docs/pmcdctl.1"), "Cm "+args[0]) {
			return fmt.Errorf("pmcdctl(1) has no %s", args[0])
		}
		return checkOptions(t, args[1:], help...)
	case "bin/bench":
		out, _ := run(t, repo, "go", "run", "./bench", "-help")
		for _, a := range args {
			if strings.HasPrefix(a, "-") && !strings.Contains(out, "\n  "+a) {
				return fmt.Errorf("bench -help has no %s", a)
			}
		}
	case "swap-pmcd":
		if !swapArgs.MatchString(strings.Join(args, " ")) {
			return fmt.Errorf("wrong arguments")
		}
	case "systemctl":
		for _, a := range args {
			if a, isUnit := strings.CutPrefix(a, "pmcd."); isUnit {
				if _, err := os.Stat(filepath.Join(repo, "systemd/pmcd."+a)); err != nil {
					return err
				}
			}
		}
	default:
		if strings.HasPrefix(words[0], "etc/") {
			_, err := os.Stat(filepath.Join(repo, words[0]))
			return err
		}
		if !slices.Contains(others, words[0]) {
			return fmt.Errorf("%s is not a known command", words[0])
		}
		if words[0] == "go" && len(args) > 0 && (args[0] == "test" || args[0] == "doc" || args[0] == "run") {
			for _, a := range args[1:] {
				dir, ours := strings.CutPrefix(strings.TrimSuffix(a, "/..."), "./")
				if _, err := os.Stat(filepath.Join(repo, dir)); ours && err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkOptions returns which option of args is not in the help that a command
// prints.
func checkOptions(t *testing.T, args []string, help ...string) error {
	out, err := run(t, repo, slices.Clone(help)...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for _, a := range args {
		o := option.FindString(a)
		if o == "" {
			continue
		}
		if !regexp.MustCompile(`(?m)(^|[ ,])` + regexp.QuoteMeta(o) + `\b`).MatchString(out) {
			return fmt.Errorf("the help has no %s", o)
		}
	}
	return nil
}

func TestCheckCommand(t *testing.T) {
	for command, ok := range map[string]bool{
		"make run":                                true,
		"make walk":                               false,
		"sudo make install prefix=/usr":           true,
		"bin/pmcd -f --embedded -p 1":             true,
		"bin/pmcd --embed":                        false,
		"pmcd -Z":                                 false,
		"LINUX_STATSPATH=/host bin/pmcd -f -l -":  true,
		"pmcdctl status --json":                   true,
		"pmcdctl status --yaml":                   false,
		"pmcdctl stats":                           false,
		"sudo swap-pmcd out":                      true,
		"swap-pmcd inn":                           false,
		"swap-pmcd in --trial 10m":                true,
		"swap-pmcd out --trial 10m":               false,
		"systemctl restart pmcd.service":          true,
		"systemctl restart pmcd.target":           false,
		"go test ./docs/...":                      true,
		"go test ./documents":                     false,
		"rm -rf /":                                false,
		"bin/pmcd-prometheus -h localhost kernel": true,
		"pmcd-prometheus --port 1":                false,
		"etc/peers.sh":                            true,
		"etc/peer.sh":                             false,
		"bin/bench -list":                         true,
		"bin/bench -lists":                        false,
		"# a comment":                             true,
		"sudo systemctl enable --now pmcd.socket": true,
	} {
		t.Run(command, func(t *testing.T) {
			if err := checkCommand(t, command); (err == nil) != ok {
				t.Errorf("%s: %v", command, err)
			}
		})
	}
}
