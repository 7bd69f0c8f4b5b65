package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// backgroundVar is the variable by which the process in the background knows its
// launcher.
const backgroundVar = "PMCD_BACKGROUND"

// When the launcher returns there is a daemon that greets.
func TestBackground(t *testing.T) {
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	p.Write("log/pmcd.log", "the last one's\n")
	p.Write("run/pmcd.pid", "12345678")
	me := ""
	if os.Geteuid() == 0 {
		me = "root"
	}
	defer syscall.Umask(syscall.Umask(0o027)) // pmcd has its own
	pid := p.Start("-U", me)
	conn, err := pmcdtest.Greeted(p.At("run/sock"), peer.Hangs)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()

	fi, err := os.Stat(p.At("run/pmcd.pid"))
	if text := pmcdtest.Read(p.At("run/pmcd.pid")); err != nil || text != strconv.Itoa(pid) || fi.Mode() != 0o444 {
		t.Errorf("the PID file has %q and is %v, %v", text, fi.Mode(), err)
	}
	if text := pmcdtest.Read(p.At("log/pmcd.log.prev")); text != "the last one's\n" {
		t.Errorf("the log before has %q", text)
	}
	of := func(name string) string { return pmcdtest.Read(fmt.Sprintf("/proc/%d/%s", pid, name)) }
	if argv0, _, _ := strings.Cut(of("cmdline"), "\x00"); argv0 != p.Exe {
		t.Errorf("argv[0] is %q, want %q", argv0, p.Exe)
	}
	if comm := strings.TrimSpace(of("comm")); comm != filepath.Base(p.Exe)[:min(15, len(filepath.Base(p.Exe)))] {
		t.Errorf("the name of the process is %q", comm)
	}
	if stat := strings.Fields(of("stat")); stat[5] != strconv.Itoa(pid) || stat[6] != "0" {
		t.Errorf("session %s and terminal %s, want %d and 0", stat[5], stat[6], pid)
	}
	t.Run("descriptors", func(t *testing.T) {
		testutil.NeedCapability(t, unix.CAP_SYS_PTRACE) // pmcd cannot be traced
		for fd, want := range []string{"/dev/null", p.At("log/pmcd.log"), p.At("log/pmcd.log")} {
			if got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || got != want {
				t.Errorf("descriptor %d is %s, want %s (%v)", fd, got, want, err)
			}
		}
	})
	if umask := pmcdtest.ProcStatus(pid, "Umask"); umask != "0022" {
		t.Errorf("umask %s", umask)
	}
	const stops = 1<<(syscall.SIGTTOU-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTSTP-1)
	if set, err := strconv.ParseUint(pmcdtest.ProcStatus(pid, "SigIgn"), 16, 64); err != nil || set&stops != stops {
		t.Errorf("signals that are ignored: %x, %v", set, err)
	}

	syscall.Kill(pid, syscall.SIGTERM)
	pmcdtest.AwaitEnd(t, pid)
	if p.Exists("run/pmcd.pid") || p.Exists("run/sock") {
		t.Error("the PID file or the socket is left")
	}
	if log := pmcdtest.Read(p.At("log/pmcd.log")); !strings.HasPrefix(log, "Log for pmcd on ") || !strings.Contains(log, "\nLog finished ") {
		t.Errorf("the log:\n%s", log)
	}
}

// The launcher says why the daemon has not started, and nothing is left of the daemon.
func TestBackgroundFails(t *testing.T) {
	running := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	me := ""
	if os.Geteuid() == 0 {
		me = "root"
	}
	running.Start("-U", me)
	for _, c := range []struct {
		name   string
		args   []string
		env    string
		stderr string
		logged bool
	}{
		{name: "no value of an option", args: []string{"-q", "0"}, stderr: "-q requires a positive numeric argument (0)"},
		{name: "another pmcd", args: []string{"-s", running.At("run/sock"), "-U", me}, stderr: "another pmcd is already running at " + running.At("run/sock")},
		{name: "an unknown user", args: []string{"-U", "nosuchuser"}, stderr: "cannot run as user nosuchuser"},
		{name: "no configuration", args: []string{"-c", "none", "-U", me}, stderr: "open none: no such file or directory (see log/pmcd.log)", logged: true},
		{name: "a bad configuration", args: []string{"-c", "pmns", "-U", me}, stderr: "pmns:1:6: expected domain number", logged: true},
		{name: "no agents", args: []string{"-c", "/dev/null", "-U", me}, stderr: "No PMDAs found", logged: true},
		{name: "a bad name space", args: []string{"-n", "conf", "-U", me}, stderr: "pmLoadASCIINameSpace(conf, 1)", logged: true},
		{name: "no place for the PID file", args: []string{"-U", me}, env: "PCP_RUN_DIR=/no/such/dir", stderr: "cannot write PID file: open /no/such/dir/pmcd.pid", logged: true},
		{name: "no variable for the PID file", args: []string{"-U", me}, env: "PCP_RUN_DIR=", stderr: "PCP_RUN_DIR is not set", logged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
			run := func(args ...string) string {
				t.Helper()
				cmd := p.Command(append(args, c.args...)...)
				cmd.Env = append(cmd.Env, c.env)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr // Run waits until no process has it open
				if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 && (!slices.Contains(args, "-F") || cmd.ProcessState.ExitCode() != cli.ExitMistake) {
					t.Errorf("ended with %v", err)
				}
				if text := stderr.String(); !strings.Contains(text, c.stderr) && !slices.Contains(args, "-F") ||
					strings.Count(text, "pmcd not started due to errors!\n") != 1 && !slices.Contains(args, "-F") {
					t.Errorf("standard error output, which should have %q once:\n%s", c.stderr, text)
				}
				if p.Exists("run/sock") || p.Exists("run/pmcd.pid") {
					t.Error("the socket or the PID file is left")
				}
				if pid, err := strconv.Atoi(pmcdtest.Read(p.At("run/pmcd.pid"))); err == nil && pid > 1 {
					syscall.Kill(pid, syscall.SIGKILL)
				}
				return stderr.String()
			}
			run()
			if p.Exists("log/pmcd.log") != c.logged {
				t.Errorf("a log: %v, want %v", !c.logged, c.logged)
			}
			run("-x", p.At("fatal"), "-F")
			fatal := pmcdtest.Read(p.At("fatal"))
			what, _, _ := strings.Cut(c.stderr, " (see")
			if !strings.HasPrefix(fatal, "NOTE: pmcd not started due to errors!  ") || !strings.Contains(fatal, what) {
				t.Errorf("the file of -x:\n%s", fatal)
			}
			if c.logged != strings.Contains(fatal, `Log file "log/pmcd.log" contains ...`+"\nLog for pmcd on ") {
				t.Errorf("with the log: %v, want %v\n%s", !c.logged, c.logged, fatal)
			}
		})
	}
}

// pmcd -f runs like other programs: it writes no PID file and ignores -U. pmcd -F
// stays in the foreground, too, but has the files of a daemon.
func TestForeground(t *testing.T) {
	me := ""
	if os.Geteuid() == 0 {
		me = "root"
	}
	for _, c := range []struct {
		args    []string
		pidFile bool
	}{
		{[]string{"-f", "-U", "nosuchuser"}, false},
		{[]string{"-F", "-U", me}, true},
		{[]string{"-F", "-f", "-U", me}, true},
	} {
		p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
		cmd := p.Command(c.args...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !peer.Until(peer.Hangs, func() bool {
			conn, err := pmcdtest.Greeted(p.At("run/sock"), peer.Hangs)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}) {
			t.Fatal("no greeting")
		}
		if p.Exists("run/pmcd.pid") != c.pidFile {
			t.Errorf("%v: a PID file: %v", c.args, !c.pidFile)
		}
		if text := pmcdtest.Read(p.At("run/pmcd.pid")); c.pidFile && text != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("%v: %q in the PID file of %d", c.args, text, cmd.Process.Pid)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		if p.Exists("run/pmcd.pid") {
			t.Errorf("%v: the PID file is left", c.args)
		}
	}
}

// The daemon has the sockets of socket activation, at the same descriptors, and no other
// descriptor that was open.
func TestBackgroundDescriptors(t *testing.T) {
	testutil.NeedCapability(t, unix.CAP_SYS_PTRACE) // pmcd cannot be traced
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	me := ""
	if os.Geteuid() == 0 {
		me = "root"
	}
	var given []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		given = append(given, w)
	}
	p.Write("agent", "#!/bin/sh\nenv >agent.env\nls -l /proc/$$/fd >agent.fd\n")
	if err := os.Chmod(p.At("agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Write("conf", "pmcd 2 dso pmcd_init /none\nagent 3 pipe binary "+p.At("agent")+"\n")
	args := p.Command("-U", me).Args
	cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=2 exec "$@"`, "sh"}, args...)...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = p.Dir, p.Command().Env, given
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pid, err := strconv.Atoi(pmcdtest.Read(p.At("run/pmcd.pid")))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	inode := func(link string) string {
		to, _ := os.Readlink(link)
		return to
	}
	var all []string
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		all = append(all, inode(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())))
	}
	for i, f := range given {
		want := inode(fmt.Sprintf("/proc/self/fd/%d", int(f.Fd())))
		if got := inode(fmt.Sprintf("/proc/%d/fd/%d", pid, 3+i)); i < 2 && got != want {
			t.Errorf("descriptor %d is %s, want %s", 3+i, got, want)
		}
		if i == 2 && slices.Contains(all, want) {
			t.Errorf("%s is open in the daemon, too", want)
		}
	}
	if !peer.Until(peer.Hangs, func() bool { return strings.HasSuffix(pmcdtest.Read(p.At("agent.fd")), "\n") }) {
		t.Fatal("no agent")
	}
	env := pmcdtest.Read(p.At("agent.env"))
	if strings.Contains(env, backgroundVar) {
		t.Errorf("the agent has %s", backgroundVar)
	}
	syscall.Kill(pid, syscall.SIGTERM)
	pmcdtest.AwaitEnd(t, pid)
}
