package shared_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// serveVar makes this program the shared process of a test. It is the configuration file.
const serveVar = "SHARED_TEST_CONFIG"

func TestMain(m *testing.M) {
	if config := os.Getenv(serveVar); config != "" {
		err := shared.Serve(os.NewFile(3, "socket"), roothelper.Config{ConfigFile: config, TrustAll: true,
			BuiltIn: func(a *pmcdconf.Agent) bool { return a.Entry != "other_init" }}, run)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run is an agent that copies its input to its output, until a line says what to do.
func run(ctx context.Context, a *pmcdconf.Agent, stdin, stdout, stderr *os.File) int {
	defer stdout.Close()
	defer stdin.Close()
	defer context.AfterFunc(ctx, func() { stdin.Close() })()
	fmt.Fprintln(stderr, a.Name, "runs")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		switch in.Text() {
		case "fail":
			return 7
		case "crash":
			go panic("a panic that nothing recovers")
		case "hang":
			fmt.Fprintln(stdout, "hang")
			select {}
		}
		fmt.Fprintln(stdout, in.Text())
	}
	return 0
}

// A harness has a Host.
type harness struct {
	*shared.Host
	t      *testing.T
	agents []pmcdconf.Agent
	spec   child.Spec // of the process, without the socket
	pids   []int      // of the processes that were started
	log    chan string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	conf := t.TempDir() + "/conf"
	if err := os.WriteFile(conf, []byte("one 10 dso one_init /none\ntwo 11 dso two_init /none\nother 12 dso other_init /none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parsed, err := pmcdconf.ParseFile(t.Context(), conf, pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, agents: parsed.Agents, log: make(chan string, 10),
		spec: child.Spec{Argv: []string{shared.Name}, Path: self, Stderr: os.Stderr,
			Env: append(os.Environ(), serveVar+"="+conf, "GORACE=atexit_sleep_ms=0")}}
	h.Host = shared.NewHost(h.startProcess, func(line string) { h.log <- line })
	return h
}

func (h *harness) startProcess(socket *os.File) (roothelper.AgentProcess, error) {
	spec := h.spec
	spec.Files = []*os.File{socket}
	p, err := child.Start(spec)
	if err == nil {
		h.pids = append(h.pids, p.PID())
	}
	return p, err
}

// logs fails the test unless a line is logged that starts with want.
func (h *harness) logs(want string) {
	h.t.Helper()
	select {
	case line := <-h.log:
		if !strings.HasPrefix(line, want) {
			h.t.Errorf("logged %q, want %q", line, want)
		}
	case <-time.After(testutil.Hangs):
		h.t.Errorf("nothing is logged, want %q", want)
	}
}

// alone fails the test unless both agents should get a process each.
func (h *harness) alone() {
	h.t.Helper()
	for i := range 2 {
		if _, err := h.start(i); !errors.Is(err, shared.ErrFailed) {
			h.t.Errorf("agent %d: %v, want ErrFailed", i, err)
		}
	}
}

// An agent is one that the harness has started.
type agent struct {
	*shared.Agent
	t     *testing.T
	pipes *child.Pipes
	out   *bufio.Reader
}

// start starts agent i of the configuration.
func (h *harness) start(i int) (*agent, error) {
	h.t.Helper()
	stderr, err := child.NewStderr(os.Stderr)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), testutil.Hangs)
	defer cancel()
	p, pipes, err := h.Start(ctx, &h.agents[i], stderr.File())
	stderr.Started()
	if err != nil {
		stderr.Close()
		return nil, err
	}
	a := &agent{p, h.t, pipes, bufio.NewReader(pipes)}
	h.t.Cleanup(func() {
		a.stop()
		a.pipes.Close()
		stderr.Close()
		if want := h.agents[i].Name + " runs"; !strings.Contains(strings.Join(stderr.Tail(), "\n"), want) {
			h.t.Errorf("the standard error output is %q, want %q", stderr.Tail(), want)
		}
	})
	return a, nil
}

func (h *harness) mustStart(i int) *agent {
	h.t.Helper()
	a, err := h.start(i)
	if err != nil {
		h.t.Fatal(err)
	}
	a.answers("hello")
	return a
}

func (a *agent) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.Stop(ctx)
}

// suspend stops the process by SIGSTOP.
func (a *agent) suspend() {
	a.t.Helper()
	syscall.Kill(a.PID(), syscall.SIGSTOP)
	// All of its threads are stopped when that is reported.
	if err := unix.Waitid(unix.P_PID, a.PID(), nil, unix.WSTOPPED, nil); err != nil {
		a.t.Error(err)
	}
}

// mustStop fails the test unless the agent has ended when Stop returns.
func (a *agent) mustStop() {
	a.t.Helper()
	a.stop()
	select {
	case <-a.Done():
	default:
		a.t.Error("the agent has not ended after Stop")
	}
}

func (a *agent) send(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.pipes, line+"\n"); err != nil {
		a.t.Fatal(err)
	}
}

// answers fails the test unless the agent copies a line.
func (a *agent) answers(line string) {
	a.t.Helper()
	a.send(line)
	a.pipes.SetReadDeadline(time.Now().Add(testutil.Hangs))
	if got, err := a.out.ReadString('\n'); err != nil || got != line+"\n" {
		a.t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

// ends fails the test unless the agent ends with a status.
func (a *agent) ends(want syscall.WaitStatus) {
	a.t.Helper()
	select {
	case <-a.Done():
	case <-time.After(testutil.Hangs):
		a.t.Fatal("the agent has not ended")
	}
	if got := a.Status() &^ 0x80; got != want { // without the bit for a core dump
		a.t.Errorf("status %#x, want %#x", got, want)
	}
}
