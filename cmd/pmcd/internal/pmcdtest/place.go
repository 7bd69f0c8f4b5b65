// Package pmcdtest runs pmcd in tests: in the background, and with the test as its service
// manager. What runs PCP's programs, too, is in package peer.
//
// The program is the test program: its TestMain calls the main function of pmcd if
// PMCD_TEST_RUN is 1.
package pmcdtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A Place is a directory with all files of a pmcd.
type Place struct {
	T   *testing.T
	Dir string
	Exe string // the program
}

// NewPlace makes a Place for a program. Its configuration has one built-in agent.
func NewPlace(t *testing.T, exe string) *Place {
	t.Helper()
	p := &Place{T: t, Dir: testutil.SharedDir(t), Exe: exe}
	if err := errors.Join(os.Mkdir(p.At("run"), 0o777), os.Mkdir(p.At("log"), 0o777),
		os.Chmod(p.At("run"), 0o777), os.Chmod(p.At("log"), 0o777)); err != nil {
		t.Fatal(err)
	}
	p.Write("conf", "pmcd 2 dso pmcd_init /none\n")
	p.Write("pmns", "root { pmcd }\npmcd { numclients 2:0:3 }\n")
	return p
}

// At returns the path of a file.
func (p *Place) At(name string) string { return filepath.Join(p.Dir, name) }

// Write writes a file.
func (p *Place) Write(name, text string) {
	p.T.Helper()
	if err := os.WriteFile(p.At(name), []byte(text), 0o644); err != nil {
		p.T.Fatal(err)
	}
}

// Command returns a command that runs pmcd with args after those that it needs.
func (p *Place) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.T.Context(), p.Exe, append([]string{
		"-c", "conf", "-n", "pmns", "-i", "127.0.0.1", "-p", "0", "-s", p.At("run/sock"), "-l", "log/pmcd.log", "-q", "30"}, args...)...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF=/dev/null", "PCP_RUN_DIR="+p.At("run"), "PCP_TLSCONF_PATH="+p.At("tls.conf"), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Run runs pmcd until it ends or, in daemon mode, until the process that has started
// the daemon ends.
func (p *Place) Run(args ...string) (code int, stderr string) {
	p.T.Helper()
	// A pipe that stays open if pmcd has it would be waited for.
	out, err := os.Create(p.At("stderr"))
	if err != nil {
		p.T.Fatal(err)
	}
	defer out.Close()
	cmd := p.Command(args...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		p.T.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), Read(out.Name())
}

// Start starts pmcd in the background and returns its process id.
func (p *Place) Start(args ...string) int {
	p.T.Helper()
	code, stderr := p.Run(args...)
	if code != 0 {
		p.T.Fatalf("status %d: %s\n%s", code, stderr, Read(p.At("log/pmcd.log")))
	}
	pid, err := strconv.Atoi(Read(p.At("run/pmcd.pid")))
	if err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(b, []byte(p.Dir)) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

// Exists reports whether there is a file of that name.
func (p *Place) Exists(name string) bool {
	_, err := os.Lstat(p.At(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Self returns the path of the test program.
func Self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}
