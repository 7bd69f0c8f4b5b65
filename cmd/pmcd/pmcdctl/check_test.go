package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/internal/testutil"
)

// pmcd of the same build gets the options, and its exit code and output are those of pmcdctl.
// Another pmcd gets only the question for its version.
func TestCheckCommand(t *testing.T) {
	own := version.Text("pmcd", version.Of(""))
	other := strings.Replace(own, "pmcd ", "pmcd 9", 1)
	for _, tt := range []struct {
		name, said   string // what pmcd --version prints; there is no pmcd without it
		args         string
		code         int
		want, stderr string // want is the arguments
	}{
		{"no options", own, "", 7, "--check-agents -q 3 -t 5 --", ""},
		{"all options", own, "-c conf -n names --json -q 10 --answer=20 a b", 7, "--check-agents -q 10 -t 20 --config=conf --namespace=names --json -- a b", ""},
		{"the compiled-in configuration", own, "--embedded", 7, "--check-agents -q 3 -t 5 --embedded --", ""},
		{"a name like an option", own, "-- --json", 7, "--check-agents -q 3 -t 5 -- --json", ""},
		{"more lines about the version", own + "this is a static build\n", "", 7, "--check-agents -q 3 -t 5 --", ""},
		{"both configurations", own, "--embedded -c conf", 3, "", "[config embedded] were all set\ntry: pmcdctl check-agents --help\n"},
		{"another build", other, "", 2, "", fmt.Sprintf(" is of another build than this pmcdctl, which is %s: with --version it prints %q; install both from the same build\n", version.Of(""), strings.TrimSpace(other))},
		{"PCP's pmcd", "pmcd version 6.0.3\n", "", 2, "", ` with --version it prints "pmcd version 6.0.3"; `},
		{"no version", "false", "", 2, "", "bin/pmcd --version: exit status 1\n"},
		{"no pmcd", "", "", 2, "", "pmcdctl: pmcd is not installed: it is neither in ["},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bin")
			ctl, err := peer.Ctl()
			if err != nil {
				t.Fatal(err)
			}
			testutil.Run(t, "install", "-D", ctl, filepath.Join(dir, "pmcdctl"))
			if tt.said != "" {
				script := "#!/bin/sh\n[ \"$1\" != --version ] || { [ -z \"$NOTIFY_SOCKET\" ] && printf %s '" + tt.said + "'; exit; }\necho \"$*\"\nexit 7\n"
				if tt.said == "false" {
					script = "#!/bin/sh\nexit 1\n"
				}
				if err := os.WriteFile(filepath.Join(dir, "pmcd"), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(filepath.Join(dir, "pmcdctl"), append([]string{"check-agents"}, strings.Fields(tt.args)...)...)
			cmd.Env = []string{"PATH=", "NOTIFY_SOCKET=/none", "GORACE=atexit_sleep_ms=0"}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || strings.TrimSpace(stdout.String()) != tt.want ||
				!strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("exit code %d, want %d, %q, %q\n%s%s", code, tt.code, tt.want, tt.stderr, &stdout, &stderr)
			}
		})
	}
}

// PCP's pmcd exits with 0 for an option that it does not know, as if all agents worked.
func TestPeerCheckAgentsOfPCP(t *testing.T) {
	peer.Require(t)
	ctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	testutil.Run(t, "install", ctl, filepath.Join(dir, "pmcdctl"))
	testutil.Run(t, "install", peer.CPmcd, filepath.Join(dir, "pmcd"))
	out, err := exec.Command(filepath.Join(dir, "pmcdctl"), "check-agents").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitNone || !regexp.MustCompile(` is of another build .*: with --version it prints "pmcd`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// withDaemon returns the path of a pmcdctl with pmcd beside it.
func withDaemon(t *testing.T) string {
	t.Helper()
	ctl, err := peer.Ctl()
	if err == nil {
		_, err = peer.Program("pmcd", "./cmd/pmcd")
	}
	if err != nil {
		t.Fatal(err)
	}
	return ctl
}

// The exit code and the output of pmcd are those of pmcdctl.
func TestCheckAgents(t *testing.T) {
	ctl := withDaemon(t)
	dir := testutil.WriteFiles(t, map[string]string{
		"conf": "builtin 100 dso simple_init /none\nmissing 101 pipe binary /no/such/file\n",
		"pmns": "root { builtin missing }\nbuiltin { x 100:0:1 }\nmissing { x 101:0:0 }\n",
	})
	for _, tt := range []struct {
		args   string
		code   int
		stdout string // a pattern
		stderr string // a part
	}{
		{"builtin", exitOK, `(?m)^builtin +100 +dso .* ok: builtin\.x has 3 values$`, ""},
		{"", exitProblems, `(?m)^missing +101 +pipe +- +- +- +FAILED: start: .*no such file`, ""},
		{"--json builtin", exitOK, `^\{\n  "agents": \[`, ""},
		{"nonesuch", exitNone, `^$`, "pmcdctl: there is no agent \"nonesuch\" in " + dir + "/conf\n"},
	} {
		cmd := exec.Command(ctl, append([]string{"check-agents", "-q", "60", "-t", "60", "-c", dir + "/conf", "-n", dir + "/pmns"}, strings.Fields(tt.args)...)...)
		cmd.Env = []string{"PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0", "TMPDIR=" + dir}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !regexp.MustCompile(tt.stdout).Match(stdout.Bytes()) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, &stdout, &stderr)
		}
	}
}

// A signal ends the agents, too.
func TestCheckAgentsInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("cp", "/bin/sleep", filepath.Join(dir, "asleep")).Run(); err != nil {
		t.Fatal(err)
	}
	pmcdctl := withDaemon(t)
	write(t, filepath.Join(dir, "conf"), "a 100 pipe binary "+dir+"/asleep 1000\n")
	write(t, filepath.Join(dir, "pmns"), "root { a }\na { x 100:0:0 }\n")
	cmd := exec.Command(pmcdctl, "check-agents", "-q", "1000", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns"))
	cmd.Env = []string{"PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !peer.Until(peer.Hangs, func() bool { return len(pmcdtest.Running(dir+"/asleep")) == 1 }) {
		t.Error("the agent is not started")
	}
	// Scripts take a process with the name pmcd for the daemon.
	if argv0, _, _ := strings.Cut(pmcdtest.Read(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)), "\x00"); argv0 != "pmcdctl" {
		t.Errorf("the process is called %q", argv0)
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitNone {
		t.Errorf("exit code %d\n%s", code, &out)
	}
	if want := "pmcdctl: interrupt signal received\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want %q at its end", &out, want)
	}
	testutil.Eventually(t, "no agent is left behind", func() bool { return len(pmcdtest.Running(dir+"/asleep")) == 0 })
}

// PCP's own agents, as PCP configures them.
func TestPeerCheckAgents(t *testing.T) {
	peer.Require(t)
	pmcdctl := withDaemon(t)
	dir := t.TempDir() // pmdaroot's socket must not be the system's
	for _, sub := range []string{"pmcd", "config/pmda"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(pmcdctl, "check-agents", "-n", "/var/lib/pcp/pmns/root", "-q", "30", "-t", "30")
	cmd.Env = append(os.Environ(), "PCP_VAR_DIR="+dir, "PCP_RUN_DIR="+dir, "PCP_TMP_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"root", "proc", "xfs", "linux", "pmproxy", "mmv", "jbd2", "kvm"} {
		if !regexp.MustCompile(`(?m)^` + name + ` .* ok: `).Match(out) {
			t.Errorf("%s is not well", name)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
