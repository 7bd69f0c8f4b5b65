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

	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/agents/launch/shared"
	"github.com/gopcp/pmcd/agents/testutil"
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
	h := &harness{t: t, agents: parsed.Agents, log: make(chan string, 10)}
	start := func(socket *os.File) (*child.Process, error) {
		return child.Start(child.Spec{Argv: []string{shared.Name}, Path: self, Stderr: os.Stderr, Files: []*os.File{socket},
			Env: append(os.Environ(), serveVar+"="+conf, "GORACE=atexit_sleep_ms=0")})
	}
	h.Host = shared.NewHost(start, func(line string) { h.log <- line })
	return h
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
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
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
	a.pipes.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := a.out.ReadString('\n'); err != nil || got != line+"\n" {
		a.t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

// ends fails the test unless the agent ends with a status.
func (a *agent) ends(want syscall.WaitStatus) {
	a.t.Helper()
	select {
	case <-a.Done():
	case <-time.After(20 * time.Second):
		a.t.Fatal("the agent has not ended")
	}
	if got := a.Status() &^ 0x80; got != want { // without the bit for a core dump
		a.t.Errorf("status %#x, want %#x", got, want)
	}
}

// Agents share a process, which ends with the last of them. A new one starts then.
func TestAgents(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	if one.PID() != two.PID() || one.PID() == os.Getpid() {
		t.Errorf("the processes are %d and %d; this one is %d", one.PID(), two.PID(), os.Getpid())
	}
	one.stop()
	one.ends(0)
	two.answers("on")
	again := h.mustStart(0)
	if again.PID() != two.PID() {
		t.Errorf("the process was %d, and is %d", two.PID(), again.PID())
	}
	two.pipes.Close() // as pmcd does
	two.ends(0)
	again.stop()
	testutil.WaitEnded(t, again.PID())
	if third := h.mustStart(1); third.PID() == again.PID() {
		t.Error("the process that has ended is used")
	}
	if len(h.log) > 0 {
		t.Errorf("logged: %s", <-h.log)
	}
}

// An agent that ends by itself leaves the others alone.
func TestAgentEnds(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	one.send("fail")
	one.ends(7 << 8)
	two.answers("on")
	if again := h.mustStart(0); again.PID() != two.PID() {
		t.Errorf("the process was %d, and is %d", two.PID(), again.PID())
	}
}

// While an agent hangs in a call, the others go on.
func TestAgentHangs(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	one.answers("hang")
	two.answers("on")
}

// What must not share a process does not.
func TestNotSharable(t *testing.T) {
	h := newHarness(t)
	h.mustStart(0)
	if _, err := h.start(2); err == nil || errors.Is(err, shared.ErrFailed) {
		t.Errorf("%v, want that it does not share a process", err)
	}
}

// After a failure of the process, all agents have its status, and get another process.
func TestProcessFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fail   func(a *agent)
		status syscall.WaitStatus
		log    string
	}{
		{"killed", func(a *agent) { syscall.Kill(a.PID(), syscall.SIGKILL) }, 9, ": signal 9 (SIGKILL)"},
		{"crash", func(a *agent) { a.send("crash") }, 2 << 8, ": exit code 2"},
		{"does not end", func(a *agent) {
			a.answers("hang")
			a.stop()
		}, 3 << 8, ": exit code 3"},
		{"stopped", func(a *agent) {
			syscall.Kill(a.PID(), syscall.SIGSTOP)
			// All of its threads are stopped when that is reported.
			if err := unix.Waitid(unix.P_PID, a.PID(), nil, unix.WSTOPPED, nil); err != nil {
				a.t.Error(err)
			}
			a.stop()
		}, 9, ": signal 9 (SIGKILL)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			one, two := h.mustStart(0), h.mustStart(1)
			tt.fail(one)
			one.ends(tt.status)
			two.ends(tt.status)
			for i := range 2 {
				if _, err := h.start(i); !errors.Is(err, shared.ErrFailed) {
					t.Errorf("agent %d: %v, want ErrFailed", i, err)
				}
			}
			want := fmt.Sprintf("pmcd-agents(%d) has ended%s", one.PID(), tt.log)
			select {
			case line := <-h.log:
				if !strings.HasPrefix(line, want) {
					t.Errorf("logged %q, want %q", line, want)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("nothing is logged, want %q", want)
			}
		})
	}
}

// SIGTERM ends the process in order. It is no failure.
func TestTerminated(t *testing.T) {
	h := newHarness(t)
	one, two := h.mustStart(0), h.mustStart(1)
	syscall.Kill(one.PID(), syscall.SIGTERM)
	one.ends(15)
	two.ends(15)
	testutil.WaitEnded(t, one.PID())
	if again := h.mustStart(0); again.PID() == one.PID() {
		t.Error("the process that has ended is used")
	}
	if len(h.log) > 0 {
		t.Errorf("logged: %s", <-h.log)
	}
}

// The process ends when the Host's process does.
func TestConnectionEnds(t *testing.T) {
	h := newHarness(t)
	var p *child.Process
	client, err := roothelper.Connect(func(socket *os.File) (err error) {
		self, _ := os.Executable()
		conf := t.TempDir() + "/conf"
		if err := os.WriteFile(conf, []byte("one 10 dso one_init /none\n"), 0o600); err != nil {
			return err
		}
		p, err = child.Start(child.Spec{Argv: []string{shared.Name}, Path: self, Stderr: os.Stderr, Files: []*os.File{socket},
			Env: append(os.Environ(), serveVar+"="+conf, "GORACE=atexit_sleep_ms=0")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := child.NewStderr(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	if _, err := client.Start(t.Context(), &h.agents[0], stderr.File()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client.Close(ctx)
	<-p.Done()
	if p.Status() != 0 {
		t.Errorf("status %#x, want 0", p.Status())
	}
	p.Stop(ctx)
}
