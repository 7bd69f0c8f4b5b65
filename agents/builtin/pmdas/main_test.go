package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// asProgram is an environment variable with which the test program is pmdas.
const asProgram = "PMCD_TEST_PMDAS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		panic("main has returned")
	}
	os.Exit(m.Run())
}

// installed returns a directory with pmdas and a link to it for each agent, as packages have them.
func installed(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := testutil.SharedDir(t)
	if err := os.Link(self, filepath.Join(dir, "pmdas")); err != nil {
		testutil.Run(t, "cp", self, filepath.Join(dir, "pmdas"))
	}
	for name := range programs {
		if err := os.Symlink("pmdas", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program returns a command that runs pmdas.
func program(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "PCP_CONF="+os.DevNull)
	return cmd
}

// exitCode runs pmdas to its end.
func exitCode(t *testing.T, cmd *exec.Cmd) (code int, stderr string) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

func TestNameOfTheLinkChoosesTheAgent(t *testing.T) {
	dir := installed(t)
	domains := make(map[int]string)
	for name, newProgram := range programs {
		p := newProgram()
		if p.Name != name {
			t.Errorf("%s is the program %s", name, p.Name)
		}
		if other := domains[p.Domain]; other != "" {
			t.Errorf("%s and %s have the same domain", name, other)
		}
		domains[p.Domain] = name
		code, said := exitCode(t, program(filepath.Join(dir, name), "-?"))
		if want := "Usage: " + name + " "; code != 1 || !strings.Contains(said, want) {
			t.Errorf("%s -?: exit code %d, %q, want %q", name, code, said, want)
		}
	}
}

// PCP's scripts look for PMDAs in the output of ps, and with pgrep and killall, which have the name
// of the process from /proc/PID/comm: that of the link, although the file is pmdas.
func TestProcessHasTheNameOfTheLink(t *testing.T) {
	dir := installed(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pmdasimple", "pmdapmproxy"} {
		path := filepath.Join(dir, name)
		cmd := program(path, "-U", me.Username, "-l", "-")
		cmd.Env = append(cmd.Env, "PCP_TMP_DIR="+t.TempDir())
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Its first PDU comes when it serves.
		if _, err := io.ReadFull(out, make([]byte, 20)); err != nil {
			t.Error(err)
		}
		read := func(file string) string {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
			if err != nil {
				t.Error(err)
			}
			return string(b)
		}
		if comm := read("comm"); comm != name+"\n" {
			t.Errorf("comm: %q, want %s", comm, name)
		}
		if line := read("cmdline"); !strings.HasPrefix(line, path+"\x00-U\x00") {
			t.Errorf("cmdline: %q, want %s", line, path)
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); err != nil || filepath.Base(exe) != "pmdas" {
			t.Errorf("exe: %s, %v", exe, err)
		}
		in.Close()
		if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), name) {
			t.Errorf("%s: %v\n%s", name, err, log.String())
		}
	}
}

func TestOtherNameSaysHowToCallIt(t *testing.T) {
	dir := installed(t)
	for _, name := range []string{"pmdas", "pmda", "pmdaopenmetrics", "pmdasimple.old", ""} {
		cmd := program(filepath.Join(dir, "pmdas"), "-d", "253")
		cmd.Args[0] = name
		code, said := exitCode(t, cmd)
		m := regexp.MustCompile(`\nNames: (.*)\n$`).FindStringSubmatch(said)
		if code != 1 || m == nil || len(strings.Fields(m[1])) != len(programs) || !strings.Contains(said, "built-in agents") {
			t.Errorf("called as %q: exit code %d\n%s", name, code, said)
		}
	}
	// A copy by the name of a link is the whole program.
	copied := filepath.Join(t.TempDir(), "pmdasimple")
	testutil.Run(t, "cp", filepath.Join(dir, "pmdasimple"), copied)
	if code, said := exitCode(t, program(copied, "-?")); code != 1 || !strings.Contains(said, "Usage: pmdasimple ") {
		t.Errorf("a copy: exit code %d\n%s", code, said)
	}
}

func TestRootAgentRefusesOtherUsers(t *testing.T) {
	dir := installed(t)
	cmd := program(filepath.Join(dir, "pmdaroot"), "-l", "-")
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args, "-U", "nobody")
	}
	cmd.Stdin = strings.NewReader("")
	if code, said := exitCode(t, cmd); code != 1 || !strings.Contains(said, "must be run as root") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}
