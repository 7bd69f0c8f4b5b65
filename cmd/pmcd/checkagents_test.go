package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// listening returns the addresses at which a process listens.
func listening(pid int) (addrs []string) {
	inodes := make(map[string]bool)
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, file := range []struct {
		name               string
		state, inode, addr int // indices of fields
		listens            string
	}{{"tcp", 3, 9, 1, "0A"}, {"tcp6", 3, 9, 1, "0A"}, {"unix", 3, 6, 7, "00010000"}} {
		for line := range strings.Lines(pmcdtest.Read("/proc/net/" + file.name)) {
			f := strings.Fields(line)
			if len(f) > max(file.inode, file.addr) && f[file.state] == file.listens && inodes[f[file.inode]] {
				addrs = append(addrs, f[file.addr])
			}
		}
	}
	return addrs
}

// pmcd --check-agents starts the agents and nothing else. PCP's scripts do not take it for the
// daemon, whatever has started it.
func TestCheckAgentsProcess(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"pmns": "root { a }\na { x 100:0:0 }\n", "run/none": "", "log/none": "", "var/none": ""})
	asleep := filepath.Join(dir, "asleep")
	testutil.Run(t, "cp", "/bin/sleep", asleep)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte("a 100 pipe binary "+asleep+" 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(pmcdtest.Self(t), "--check-agents", "-q", "1000", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns"))
	cmd.Args[0] = "/usr/libexec/pcp/pmcd"
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF=/dev/null", "NOTIFY_SOCKET="+filepath.Join(dir, "none"),
		"PCP_RUN_DIR="+filepath.Join(dir, "run"), "PCP_LOG_DIR="+filepath.Join(dir, "log"), "PCP_VAR_DIR="+filepath.Join(dir, "var"))
	inherited, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	cmd.ExtraFiles = []*os.File{inherited}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.HasSuffix(out.String(), "pmcd-check: terminated signal received\n") {
			t.Errorf("exit code %d\n%s", code, &out)
		}
	}()
	var agents []int
	if !peer.Until(peer.Hangs, func() bool { agents = pmcdtest.Running(asleep); return len(agents) == 1 }) {
		t.Fatal("the agent is not started")
	}
	argv0, _, _ := strings.Cut(pmcdtest.Read(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
	if comm := pmcdtest.Read(fmt.Sprintf("/proc/%d/comm", pid)); argv0 != "pmcd-check" || comm != "pmcd-check\n" {
		t.Errorf("the process is called %q, its program %q", argv0, comm)
	}
	if children := testutil.Children(pid); !slices.Equal(children, agents) {
		t.Errorf("the processes %d were started; the agent is %d", children, agents)
	}
	if got, want := pmcdtest.IDs(pid), pmcdtest.IDs(os.Getpid()); got != want {
		t.Errorf("it has the rights of %s, want %s", got, want)
	}
	if addrs := listening(pid); len(addrs) > 0 {
		t.Errorf("it listens at %q", addrs)
	}
	if fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", agents[0])); len(fds) != 3 {
		t.Errorf("the agent has the descriptors %q", fds)
	}
	for _, sub := range []string{"run", "log", "var"} {
		if files, _ := filepath.Glob(filepath.Join(dir, sub, "*")); len(files) != 1 {
			t.Errorf("there are %q", files)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.log")); len(files) > 0 {
		t.Errorf("there are %q", files)
	}
}

// Exit code 0 would say that all agents work: no mistake on the command line has it.
func TestCheckAgentsBadOptions(t *testing.T) {
	for _, manager := range []string{"", "/none"} {
		t.Setenv("NOTIFY_SOCKET", manager)
		for args, want := range map[string]string{
			"--check-agents --bogus":         "pmcd: unrecognized option '--bogus'\n",
			"--check-agents -F --bogus name": "pmcd: unrecognized option '--bogus'\n",
			"--check-agents -q 0":            "pmcd: -q requires a positive numeric argument (0)\n",
			"--check-agents --embedded -c x": "pmcd: --embedded does not go with -c, -n or -N\n",
		} {
			var stderr bytes.Buffer
			if code := run(strings.Fields(args), &stderr); code != 3 || !strings.HasPrefix(stderr.String(), want) {
				t.Errorf("%s: exit code %d, want 3, %q first:\n%s", args, code, want, &stderr)
			}
		}
	}
}

// A pmcd that has other rights than its caller would start programs of the caller with them.
func TestCheckAgentsSetID(t *testing.T) {
	testutil.NeedRoot(t)
	program, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	dir := testutil.SharedDir(t)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	const nosuid = 2 // ST_NOSUID
	if fs.Flags&nosuid != 0 || pmcdtest.ProcStatus(os.Getpid(), "NoNewPrivs") == "1" {
		testutil.Missing(t, "set-user-ID has no effect in ", dir)
	}
	made := filepath.Join(dir, "made/here")
	for name, text := range map[string]string{
		"script": "#!/bin/sh\necho >" + made + "\n",
		"conf":   "a 100 pipe binary " + dir + "/script\n",
		"pmns":   "root { a }\na { x 100:0:0 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"made", "tmp"} {
		testutil.Run(t, "install", "-d", "-m", "777", filepath.Join(dir, sub))
	}
	for name, how := range map[string][]string{
		"neither":      {"-m", "755"},
		"set-user-ID":  {"-m", "4755", "-o", "1", "-g", "0"},
		"set-group-ID": {"-m", "2755", "-o", "0", "-g", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(made)
			pmcd := filepath.Join(dir, "pmcd")
			testutil.Run(t, "install", append(how, program, pmcd)...)
			cmd := exec.Command(pmcd, "--check-agents", "-q", "60", "-c", filepath.Join(dir, "conf"), "-n", filepath.Join(dir, "pmns"))
			cmd.Env = []string{"PATH=/bin:/usr/bin", "PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0", "TMPDIR=" + filepath.Join(dir, "tmp")}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, _ := cmd.CombinedOutput()
			code, refused := 2, true
			if name == "neither" {
				code, refused = 1, false // the script is no agent
			}
			_, err := os.Stat(made)
			if got := cmd.ProcessState.ExitCode(); got != code || strings.Contains(string(out), "--check-agents is refused: ") != refused || (err != nil) != refused {
				t.Errorf("exit code %d, want %d; refused: want %v; the file of the script: %v\n%s", got, code, refused, err, out)
			}
		})
	}
}
