package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// silentNameServer makes this host, which is a name space of its own, one whose name only a name
// server knows, which does not answer.
func silentNameServer(t *testing.T) {
	t.Helper()
	testutil.Run(t, testutil.NeedProgram(t, "ip"), "link", "set", "lo", "up")
	server, err := net.ListenPacket("udp4", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := unix.Sethostname([]byte("lonely.example.com")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"/etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"/etc/resolv.conf":   "nameserver 127.0.0.53\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			testutil.Missing(t, path, ": ", err)
		}
	}
}

// No agent needs this host's name to start: with a name server that does not answer, all start at
// once, also those of the root helper.
func TestSilentNameServer(t *testing.T) {
	testutil.NeedRoot(t)
	pmcd, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PMCD_UNDER_TEST", pmcd)
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}) {
		return
	}
	silentNameServer(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"embedded", []string{"--embedded"}},
		{"the access rules of PCP", []string{"-c", "conf", "-n", "pmns"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pmcdtest.NewPlace(t, pmcd)
			p.Write("conf", "pmcd 2 dso pmcd_init builtin\nroot 1 dso root_init builtin\nproc 3 dso proc_init builtin\n"+
				"trace 10 pipe binary /nosuch/pmdatrace -d 10 -A allow:localhost:0\n"+
				"[access]\ndisallow \".*\" : store;\ndisallow \":*\" : store;\nallow \"local:*\" : all;\n")
			cmd := exec.Command(pmcd, append(tt.args, "-F", "-U", "nobody", "-i", "127.0.0.1", "-p", "0", "-s", p.At("run/sock"), "-l", p.At("log/pmcd.log"))...)
			cmd.Dir = p.Dir
			cmd.Env = append(os.Environ(), "PCP_CONF=/dev/null", "PCP_RUN_DIR="+p.At("run"), "PCP_TMP_DIR="+p.At("log"), "GORACE=atexit_sleep_ms=0")
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cmd.Process.Signal(syscall.SIGTERM)
				if err := cmd.Wait(); err != nil {
					t.Errorf("pmcd: %v", err)
				}
				if log := pmcdtest.Read(p.At("log/pmcd.log")); t.Failed() || strings.Contains(log, "cannot start") {
					t.Errorf("the log:\n%s", log)
				}
			}()
			testutil.Eventually(t, "all agents are ready", func() bool {
				r, err := ctl.Ask(t.Context(), ctl.Path(p.At("run/sock")))
				if err != nil {
					return false
				}
				for _, a := range r.Agents {
					if a.State != ctl.Ready {
						return false
					}
				}
				return true
			})
		})
	}
}
