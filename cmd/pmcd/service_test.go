package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// A service is a pmcd that a manager has started. Beside its built-in agent it
// has one that never gets ready: a script that writes down what it inherited
// and then waits for the gate to be opened.
type service struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

const agentScript = `cd "$1"
env >env.tmp
for fd in /proc/$$/fd/*; do [ ! -L "$fd" ] || echo "${fd##*/}"; done >fds
mv env.tmp env
read -r word <gate
`

func newService(t *testing.T, args ...string) *service {
	t.Helper()
	dir, err := os.MkdirTemp("", "pmcd") // short: it is part of a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &service{t: t, dir: dir, done: make(chan struct{})}
	for name, text := range map[string]string{
		"conf":     "pmcd 2 dso pmcd_init /none\nshy 240 pipe binary /bin/sh " + s.path("agent") + " " + dir + "\n",
		"pcp.conf": "",
		"pmns":     "root { pmcd }\npmcd { numclients 2:0:3 }\n",
		"agent":    agentScript,
	} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(s.path("gate"), 0o666); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// What a manager says is meant for one pid, which only the shell can know.
	args = append([]string{"-c", `[ -z "$LISTEN_FDS" ] || export LISTEN_PID=${LISTEN_PID:-$$}; exec "$@"`, "sh",
		self, "-U", "root", "-c", "conf", "-n", "pmns", "-i", "127.0.0.1", "-p", "0", "-s", s.path("sock"), "-q", "30"}, args...)
	s.cmd = exec.Command("/bin/sh", args...)
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF="+s.path("pcp.conf"), "PCP_RUN_DIR="+dir, "PMCD_RESTART_AGENTS=0", "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	return s
}

func (s *service) path(name string) string { return filepath.Join(s.dir, name) }

func (s *service) read(name string) string { return read(s.path(name)) }

// start starts pmcd, which is ended with the test at the latest.
func (s *service) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		if err := s.cmd.Wait(); err != nil {
			s.t.Errorf("pmcd: %v", err)
		}
	}()
	s.t.Cleanup(func() {
		s.stop()
		if s.t.Failed() {
			s.t.Logf("pmcd.log:\n%s", s.read("pmcd.log"))
		}
	})
}

func (s *service) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		s.t.Error("pmcd does not end")
		s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.done
	}
}

// greets waits until pmcd greets at a socket.
func (s *service) greets(path string) {
	s.t.Helper()
	if !peer.Until(20*time.Second, func() bool {
		conn, err := greeted(path, 5*time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil || isClosed(s.done)
	}) || isClosed(s.done) {
		s.t.Fatal("pmcd does not greet")
	}
}

// openGate lets the agent end.
func (s *service) openGate() {
	s.t.Helper()
	f, err := os.OpenFile(s.path("gate"), os.O_RDWR, 0) // never waits for a reader
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	fmt.Fprintln(f)
}

// inherited returns the names of the variables, and the descriptors, that the
// agent has.
func (s *service) inherited() (names, fds []string) {
	s.t.Helper()
	if !peer.Until(20*time.Second, func() bool { return s.read("env") != "" }) {
		s.t.Fatal("the agent was not started")
	}
	for line := range strings.Lines(s.read("env")) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	return names, strings.Fields(s.read("fds"))
}
