package installtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// steps are the commands that change files, if their arguments are like the pattern.
var steps = map[string]string{"cp": "*", "chmod": "*", "ln": "*", "mv": "*", "rm": "*", "sync": "*", "dpkg-divert": "*--add*|*--remove*"}

// What happens to a script in place of a step.
const (
	killed = "kill -KILL 0" // its process group
	failed = "exit 1"       // as on a full disk
)

// stop runs a script, to which that happens in place of step n. It reports whether there was
// such a step. PATH is the last variable of the environment.
func stop(t *testing.T, cmd *exec.Cmd, n int, what string) bool {
	t.Helper()
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	write(t, count, "0\n")
	path := &cmd.Env[len(cmd.Env)-1]
	*path = "PATH=" + dir + ":" + strings.TrimPrefix(*path, "PATH=")
	for name, pattern := range steps {
		program, err := exec.LookPath(name)
		if err != nil {
			continue // no dpkg here
		}
		write(t, filepath.Join(dir, name), fmt.Sprintf(`#!/bin/sh
case "$*" in %s) ;; *) exec %s "$@" ;; esac
n=$(($(cat %s) + 1))
echo $n >%[3]s
[ $n != %d ] || %s
exec %[2]s "$@"
`, pattern, program, count, n, what))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, _ := cmd.CombinedOutput()
	did, err := strconv.Atoi(strings.TrimSpace(read(t, count)))
	if err != nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code > 1 || code != 0 && did < n {
		t.Errorf("step %d: exit status %d\n%s", n, code, out)
	}
	return did >= n
}

// Wherever "in" and "out" are killed, or fail, there is a pmcd, and the next one does all of it.
func TestSwapStopped(t *testing.T) {
	for _, tt := range []struct {
		name string
		dpkg bool
		what string
	}{
		{"killed", true, killed},
		{"failed", true, failed},
		{"killed without dpkg", false, killed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			if tt.dpkg {
				h.dpkg()
				h.install("1", theirs)
			} else {
				write(t, h.target, theirs)
			}
			// done checks what a whole "in" or "out" leaves.
			done := func(when, verb string) {
				t.Helper()
				if verb == "in" {
					h.has(when, ours, theirs)
				} else {
					h.has(when, theirs, "")
				}
				if tt.dpkg && (h.diversions() != "") != (verb == "in") {
					t.Errorf("%s: diversions: %q", when, h.diversions())
				}
			}
			for _, verbs := range [][2]string{{"in", "out"}, {"out", "in"}} {
				verb, other := verbs[0], verbs[1]
				for _, next := range verbs {
					if tt.what == failed && next != verb {
						continue // as after a kill
					}
					n := 0
					for more := true; more; {
						n++
						h.swap(other, 0)
						more = stop(t, h.command(verb), n, tt.what)
						when := fmt.Sprintf("%s, stopped at step %d", verb, n)
						switch read(t, h.target) {
						case ours:
							h.swap("status", 0)
						case theirs:
							h.swap("status", 1)
						default:
							t.Errorf("%s: %s is no pmcd", when, h.target)
						}
						h.swap(next, 0)
						done(when+", and then "+next, next)
					}
					if n < 4 {
						t.Errorf("%s has only %d steps", verb, n)
					}
				}
			}
		})
	}
}

// Where the disk is full, "in" changes nothing, and "out" needs no space.
func TestSwapFullDisk(t *testing.T) {
	for _, dpkg := range []bool{true, false} {
		t.Run(fmt.Sprintf("dpkg %t", dpkg), func(t *testing.T) {
			dir := t.TempDir()
			mounts := testutil.Unshare(t, []string{"--mount"}, "mount -t tmpfs -o size=1m tmpfs "+dir+" && echo ready && read stay")
			h := hostAt(t, fmt.Sprintf("/proc/%d/root%s", mounts.Process.Pid, dir))
			if dpkg {
				h.dpkg()
				h.install("1", theirs)
			} else {
				write(t, h.target, theirs)
			}
			large := ours + strings.Repeat("x", 100<<10)
			write(t, h.new, large)
			filler := filepath.Join(h.root, "filler")
			fill := func() {
				t.Helper()
				if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("the disk is not full: %v", err)
				}
			}
			fill()
			h.swap("in", 1)
			h.has("in on a full disk", theirs, "")
			os.Remove(filler)
			h.swap("in", 0)
			fill()
			h.swap("out", 0)
			h.has("out on a full disk", theirs, "")
			if dpkg && h.diversions() != "" {
				t.Errorf("diversions: %s", h.diversions())
			}
		})
	}
}

// pkg returns the command that runs a script of the deb pmcd-swap for a host.
func (h *host) pkg(script, action string) *exec.Cmd {
	h.t.Helper()
	path := filepath.Join(repo, "etc/packaging/scripts/pmcd-swap.deb."+script)
	text := strings.ReplaceAll(read(h.t, path), "/usr/lib/pcp/bin", filepath.Dir(h.target))
	stubs := filepath.Dir(h.labels)
	write(h.t, filepath.Join(stubs, "systemctl"), "#!/bin/sh\nexit 1\n") // not that of this host
	cmd := exec.Command("sh", "-c", text, "sh", action)
	cmd.Env = append(os.Environ(), "DPKG_ADMINDIR="+filepath.Join(h.root, "var/lib/dpkg"), "PATH="+stubs+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	return cmd
}

// Wherever the scripts of the deb are killed, there is a pmcd, if dpkg has not removed it, and dpkg
// runs the script again.
func TestPackageScriptsStopped(t *testing.T) {
	h := newHost(t)
	h.dpkg()
	for _, tt := range []struct {
		name, script, action string
		by                   string // what has diverted pmcd before
		target, kept         string // before
		after, keptAfter     string
		diverted             bool // after
	}{
		{"new", "preinst", "install", "", theirs, "", theirs, theirs, true},
		{"before PCP", "preinst", "install", "", "", "", "", "", true},
		{"after swap-pmcd in", "preinst", "install", "--local", ours, theirs, ours, theirs, true},
		{"after a swap-pmcd in that was killed", "preinst", "install", "", theirs, newer, theirs, theirs, true},
		{"upgrade", "preinst", "upgrade", "--package=pmcd-swap", ours, theirs, ours, theirs, true},
		{"failed", "postrm", "abort-install", "--package=pmcd-swap", theirs, theirs, theirs, "", false},
		{"failed after swap-pmcd in", "postrm", "abort-install", "--package=pmcd-swap", ours, theirs, theirs, "", false},
		{"removed", "postrm", "remove", "--package=pmcd-swap", "", theirs, theirs, "", false},
		{"removed after PCP", "postrm", "remove", "--package=pmcd-swap", "", "", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			admin := "--admindir=" + filepath.Join(h.root, "var/lib/dpkg")
			h := *h
			h.t = t
			n := 0
			for more := true; more; {
				n++
				for path, text := range map[string]string{h.target: tt.target, h.kept: tt.kept} {
					os.Remove(path)
					if text != "" {
						write(t, path, text)
					}
				}
				if tt.target != "" && tt.target == tt.kept { // as preinst does
					if err := errors.Join(os.Remove(h.kept), os.Link(h.target, h.kept)); err != nil {
						t.Fatal(err)
					}
				}
				write(t, filepath.Join(h.root, "var/lib/dpkg/diversions"), "")
				if tt.by != "" {
					h.run("dpkg-divert", admin, "--quiet", tt.by, "--no-rename", "--divert", h.kept, "--add", h.target)
				}
				more = stop(t, h.pkg(tt.script, tt.action), n, killed)
				if b, err := os.ReadFile(h.target); tt.target != "" && (err != nil || string(b) != ours && string(b) != theirs) {
					t.Errorf("step %d: %q, %v", n, b, err)
				}
				if out, err := h.pkg(tt.script, tt.action).CombinedOutput(); err != nil {
					t.Errorf("step %d, again: %v\n%s", n, err, out)
				}
				h.has(fmt.Sprintf("step %d, and again", n), tt.after, tt.keptAfter)
				if text := h.run("dpkg-divert", admin, "--list"); strings.Contains(text, "by pmcd-swap") != tt.diverted {
					t.Errorf("step %d, and again: diversions: %q", n, text)
				}
			}
		})
	}
}
