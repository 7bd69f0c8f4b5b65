package pmcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// A Service is a pmcd that a service manager starts, as the test program's child.
// Beside a built-in agent it has one that never gets ready: a script that records
// what it has inherited, and then waits for OpenGate.
type Service struct {
	t    *testing.T
	dir  string
	Cmd  *exec.Cmd
	done chan struct{}
}

// AgentScript is the script of that agent.
const AgentScript = `cd "$1"
env >env.tmp
for fd in /proc/$$/fd/*; do [ ! -L "$fd" ] || echo "${fd##*/}"; done >fds
mv env.tmp env
read -r word <gate
`

// NewService returns a Service with arguments after those that it needs. It is not
// started: Cmd can be changed.
func NewService(t *testing.T, args ...string) *Service {
	t.Helper()
	dir, err := os.MkdirTemp("", "pmcd") // short: it is part of a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Service{t: t, dir: dir, done: make(chan struct{})}
	for name, text := range map[string]string{
		"conf":     "pmcd 2 dso pmcd_init /none\nshy 240 pipe binary /bin/sh " + s.Path("agent") + " " + dir + "\n",
		"pcp.conf": "",
		"pmns":     "root { pmcd }\npmcd { numclients 2:0:3 }\n",
		"agent":    AgentScript,
	} {
		if err := os.WriteFile(s.Path(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(s.Path("gate"), 0o666); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// What a manager says is meant for one pid, which only the shell has.
	args = append([]string{"-c", `[ -z "$LISTEN_FDS" ] || export LISTEN_PID=${LISTEN_PID:-$$}; exec "$@"`, "sh",
		self, "-U", User(), "-c", "conf", "-n", "pmns", "-i", "127.0.0.1", "-p", "0", "-s", s.Path("sock"), "-q", "30"}, args...)
	s.Cmd = exec.Command("/bin/sh", args...)
	s.Cmd.Dir = dir
	s.Cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF="+s.Path("pcp.conf"), "PCP_RUN_DIR="+dir, "PMCD_RESTART_AGENTS=0", "GORACE=atexit_sleep_ms=0")
	s.Cmd.Stderr = os.Stderr
	return s
}

// Path returns the path of a file.
func (s *Service) Path(name string) string { return filepath.Join(s.dir, name) }

// Read returns the content of a file so far.
func (s *Service) Read(name string) string { return Read(s.Path(name)) }

// Start starts pmcd. It is stopped at the end of the test, unless Stop has done so.
func (s *Service) Start() {
	s.t.Helper()
	if err := s.Cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		if err := s.Cmd.Wait(); err != nil {
			s.t.Errorf("pmcd: %v", err)
		}
	}()
	s.t.Cleanup(func() {
		s.Stop()
		if s.t.Failed() {
			s.t.Logf("pmcd.log:\n%s", s.Read("pmcd.log"))
		}
	})
}

// Stop stops pmcd and waits for its end.
func (s *Service) Stop() {
	s.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(peer.Hangs):
		s.t.Error("pmcd does not end")
		s.Cmd.Process.Signal(syscall.SIGQUIT)
		<-s.done
	}
}

// Greets waits until pmcd greets at a socket.
func (s *Service) Greets(path string) {
	s.t.Helper()
	if !peer.Until(peer.Hangs, func() bool {
		conn, err := Greeted(path, 5*time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil || IsClosed(s.done)
	}) || IsClosed(s.done) {
		s.t.Fatal("pmcd does not greet")
	}
}

// OpenGate ends the agent.
func (s *Service) OpenGate() {
	s.t.Helper()
	f, err := os.OpenFile(s.Path("gate"), os.O_RDWR, 0) // never waits for a reader
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	fmt.Fprintln(f)
}

// Inherited returns the names of the environment variables and the descriptors that
// the agent has.
func (s *Service) Inherited() (names, fds []string) {
	s.t.Helper()
	if !peer.Until(peer.Hangs, func() bool { return s.Read("env") != "" }) {
		s.t.Fatal("the agent was not started")
	}
	for line := range strings.Lines(s.Read("env")) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	return names, strings.Fields(s.Read("fds"))
}

// User returns the name of the user that runs the tests: only root can change to another one.
func User() string {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return strconv.Itoa(os.Geteuid())
	}
	return u.Username
}
