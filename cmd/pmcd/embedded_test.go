package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// bareHost makes a directory tree with pmcd, pmcdctl, the libraries that they need and
// the given directories, which belong to root.
func bareHost(t *testing.T, dirs map[string]os.FileMode) string {
	t.Helper()
	program, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "host") // short: it is part of a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	dirs["."] = 0o755
	for name, mode := range dirs {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/bin/pmcd": program, "/bin/pmcdctl": pmcdctl}
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(out)) {
		if filepath.IsAbs(word) {
			files[word] = word
		}
	}
	for name, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// onBareHost is a command that runs pmcd in root as a user. It has a /proc
// where this process may have mounts of its own.
func onBareHost(root string, uid int, args ...string) *exec.Cmd {
	argv := []string{"chroot"}
	if uid != 0 {
		argv = append(argv, fmt.Sprintf("--userspec=%d:%d", uid, uid))
	}
	argv = append(append(argv, root, "/bin/pmcd"), args...)
	unshare := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if exec.Command(unshare[0], append(unshare[1:], "true")...).Run() == nil {
		const script = `[ ! -d "$0/proc" ] || mount --rbind /proc "$0/proc"; exec "$@"`
		argv = append(append(unshare, "sh", "-c", script, root), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// pcpClient runs a client of PCP's and returns what it prints.
func pcpClient(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
	out, _ := cmd.CombinedOutput() // it says what is wrong
	return string(out)
}

// On a host with no file of PCP's, "pmcd -f" serves: as an ordinary user, as
// root, and where no directory can be written to.
func TestPeerEmbedded(t *testing.T) {
	peer.Require(t)
	const nobody = 65534
	usual := func() map[string]os.FileMode {
		return map[string]os.FileMode{"proc": 0o755, "run": 0o755, "var/log": 0o755, "tmp": 0o777 | os.ModeSticky}
	}
	tests := []struct {
		name        string
		uid         int
		dirs        map[string]os.FileMode
		socket, log string // "" is none, and on the terminal
	}{
		{"an ordinary user", nobody, usual(), "/tmp/pcp-65534/pmcd.socket", "/tmp/pcp-65534/pmcd.log"},
		{"root", 0, usual(), "/run/pcp/pmcd.socket", "/var/log/pcp/pmcd.log"},
		{"nowhere to write", nobody, map[string]os.FileMode{}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.uid != 0 {
				testutil.NeedRoot(t) // to be another user
			}
			root := bareHost(t, tt.dirs)
			screen := filepath.Join(t.TempDir(), "screen")
			w, err := os.Create(screen)
			if err != nil {
				t.Fatal(err)
			}
			cmd := onBareHost(root, tt.uid, "-f", "-p", "0")
			cmd.Stdout, cmd.Stderr = w, w
			err = cmd.Start()
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				err = cmd.Wait()
			}()
			defer func() {
				cmd.Process.Signal(syscall.SIGTERM)
				select {
				case <-ended:
					if err != nil {
						t.Errorf("pmcd: %v", err)
					}
				case <-time.After(testutil.Hangs):
					t.Error("pmcd does not end")
					cmd.Process.Kill()
					<-ended
				}
				if _, err := os.Lstat(filepath.Join(root, tt.socket)); tt.socket != "" && err == nil {
					t.Error("the socket is left behind")
				}
				if text := pmcdtest.Read(screen) + pmcdtest.Read(filepath.Join(root, tt.log)); t.Failed() || strings.Contains(text, "DATA RACE") {
					t.Errorf("terminal and log:\n%s", text)
				}
			}()

			served := regexp.MustCompile(`serving embedded defaults: (\d+) metrics; agents: root, pmcd\b`)
			tcp := regexp.MustCompile(`try: pmcdctl list -h (localhost:\d+)`)
			last := regexp.MustCompile(`pmcd: log: |no log file: `)
			peer.Until(peer.Hangs, func() bool { return last.MatchString(pmcdtest.Read(screen)) || pmcdtest.IsClosed(ended) })
			text := pmcdtest.Read(screen)
			metrics, where := served.FindStringSubmatch(text), tcp.FindStringSubmatch(text)
			if metrics == nil || where == nil {
				t.Fatal("it does not say what is served, and where")
			}
			hosts := []string{where[1]}
			if tt.socket != "" {
				if !strings.Contains(text, "try: pmcdctl list -h unix:"+tt.socket+"\n") || !strings.Contains(text, "log: "+tt.log+"\n") {
					t.Errorf("no %s, %s on the terminal", tt.socket, tt.log)
				}
				hosts = append(hosts, "unix:"+filepath.Join(root, tt.socket))
			} else if !strings.Contains(text, "no Unix domain socket: ") {
				t.Error("it does not say that there is no socket")
			}
			check := func() {
				t.Helper()
				for _, host := range hosts {
					out := pcpClient(t, "pminfo", "-h", host)
					// pminfo adds event.*, and of these subtrees only the place is compiled in.
					n := strings.Count(out, "\n") - strings.Count(out, "event.")
					for _, root := range []string{"kvm.trace.", "mmv.control.", "pmproxy.control."} {
						n += 1 - strings.Count(out, root)
					}
					if strconv.Itoa(n) != metrics[1] {
						t.Errorf("%s: %d metrics, not %s:\n%s", host, n, metrics[1], out)
					}
					served := fmt.Sprintf("value %d\n", agentsServed(t))
					peer.Until(peer.Hangs, func() bool { // agents start while clients are greeted
						out = pcpClient(t, "pminfo", "-h", host, "-fl", "pmcd.numagents", "pmda.version")
						return strings.Contains(out, served)
					})
					if !strings.Contains(out, served) || !strings.Contains(out, fmt.Sprintf("value %q", pcpconf.Version)) || !strings.Contains(out, `"pmcd_config":"embedded"`) {
						t.Errorf("%s:\n%s", host, out)
					}
				}
			}
			check()
			// The kernel gives the files of a process to root if others cannot read its memory.
			if fi, err := os.Stat(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("the memory is not protected: %v, %v", fi, err)
			}
			for i, want := range []string{"No permission", `new value="x"`}[:len(hosts)] {
				if out := pcpClient(t, "pmstore", "-h", hosts[i], "pmcd.client.whoami", "x"); !strings.Contains(out, want) {
					t.Errorf("pmstore -h %s: no %q:\n%s", hosts[i], want, out)
				}
			}

			if tt.uid == 0 { // pmcdctl of an ordinary user finds it, and says why there is no answer
				ask := onBareHost(root, nobody, "status")
				ask.Args[slices.Index(ask.Args, "/bin/pmcd")] = "/bin/pmcdctl"
				out, _ := ask.CombinedOutput()
				if want := "pmcdctl: /run/pcp/pmcd.ctl: permission denied: only root and the user that pmcd runs as may ask\n"; string(out) != want {
					t.Errorf("pmcdctl status of another user: got %swant %s", out, want)
				}
			}

			// PCP is installed while pmcd runs: this pmcd stays what it is.
			if err := os.MkdirAll(filepath.Join(root, "etc/pcp/pmcd"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"etc/pcp.conf", "etc/pcp/pmcd/pmcd.conf"} {
				if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Process.Signal(syscall.SIGHUP)
			if !peer.Until(peer.Hangs, func() bool {
				return strings.Contains(pcpClient(t, "pminfo", "-h", hosts[0], "-f", "pmcd.sighups"), "value 1")
			}) {
				t.Error("SIGHUP is not noticed")
			}
			check()
			log := pmcdtest.Read(screen)
			if tt.log != "" {
				log = pmcdtest.Read(filepath.Join(root, tt.log))
				if fi, err := os.Stat(filepath.Join(root, filepath.Dir(tt.socket))); err != nil || fi.Mode()&0o022 != 0 {
					t.Errorf("the directory of the socket: %v, %v", fi.Mode(), err)
				}
			}
			if strings.Contains(log, "is built in") || tt.log != "" && strings.Contains(log, "Warning") {
				t.Errorf("the log has what is neither news nor a problem")
			}
			if !served.MatchString(log) || !strings.Contains(log, "INADDR_LOOPBACK") || strings.Contains(log, "INADDR_ANY") {
				t.Error("the log should say what is served, and for this host only")
			}
		})
	}
}

// agentsServed is the number of agents of the embedded configuration.
func agentsServed(t *testing.T) int {
	e, err := embedded.Load(false)
	if err != nil {
		t.Fatal(err)
	}
	return len(e.Conf.Agents)
}
