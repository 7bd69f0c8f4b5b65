package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A process is a process of pmdacolours.
type process struct {
	*child.Process
	log, stderr string // files
}

// setPCPUser sets PCP_USER unless it is set: where PCP was never installed there is no user pcp.
func setPCPUser(t *testing.T) {
	if os.Getenv("PCP_USER") == "" {
		t.Setenv("PCP_USER", "nobody")
	}
}

// startChild starts this test binary as pmdacolours with a log of its own, or with
// RunChild if the first argument is "child". The process is stopped when t ends.
func startChild(t *testing.T, pipes bool, args ...string) *process {
	t.Helper()
	setPCPUser(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &process{log: filepath.Join(dir, "log"), stderr: filepath.Join(dir, "stderr")}
	stderr, err := os.Create(c.stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	argv := append([]string{"pmdacolours", "-d", "120", "-D", "libpmda", "-l", c.log}, args...)
	if len(args) > 0 && args[0] == "child" {
		argv = []string{"child: colours"}
	}
	if c.Process, err = child.Start(child.Spec{Argv: argv, Path: self, Pipes: pipes, Stderr: stderr}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Stop(ctx)
	})
	return c
}

func (c *process) text() string {
	b, _ := os.ReadFile(c.log)
	return string(b)
}

// dial returns a client of the agent. If conn is nil, it uses the pipes.
func (c *process) dial(t *testing.T, conn wire.Conn) *wire.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	if conn == nil {
		conn = c.Pipes
	}
	w, err := wire.Dial(ctx, conn, wire.Options{})
	if err != nil {
		t.Fatalf("%v; log:\n%s", err, c.text())
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// wait returns the exit status of the process and its log without header and
// trailer.
func (c *process) wait(t *testing.T) (syscall.WaitStatus, string) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(testutil.Hangs):
		t.Fatalf("the process has not ended; log:\n%s", c.text())
	}
	m := logFrame.FindStringSubmatch(c.text())
	if m == nil {
		t.Fatalf("log: %s", c.text())
	}
	return c.Status(), m[1]
}

// fetch fetches a metric from the agent.
func fetch(t *testing.T, c transport.Transport) {
	t.Helper()
	var r pdu.Result
	if err := transporttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(120, 0, 1)}}, &r); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Sets[0].Values); n != len(names) {
		t.Errorf("%d values, want %d", n, len(names))
	}
}

// PMCD_MAX_REPLY limits replies. A value that is not valid is ignored.
func TestMaxReply(t *testing.T) {
	req := &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(120, 0, 1)}}
	for value, want := range map[string]error{"40": pdu.ErrnoTooBig, "65536": nil, "-5": nil, "0": nil, "99999999999999999999": nil, "64k": nil} {
		t.Run(value, func(t *testing.T) {
			t.Setenv(MaxReplyVar, value)
			p := startChild(t, true)
			c := p.dial(t, nil)
			if err := transporttest.Do(c, agents.Origin{}, req, new(pdu.Result)); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			c.Close()
			_, log := p.wait(t)
			ignored := value != "40" && value != "65536"
			if got := strings.Contains(log, "PMCD_MAX_REPLY="+value+" in environment is ignored"); got != ignored {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// Output of the agent goes to the log and not into the protocol. The process ends
// when pmcd closes the stream.
func TestProcess(t *testing.T) {
	c := startChild(t, true)
	w := c.dial(t, nil)
	transporttest.Test(t, w, pdu.NewPMID(120, 0, 0), pdu.NewPMID(120, 0, 1))
	w.Close()
	status, log := c.wait(t)
	if status != 0 {
		t.Errorf("ended with %#x, want 0", status)
	}
	for _, want := range []string{
		"this must not get into the protocol\n", "this must not get into pmcd's log\n", "Info: by slog\n", "Info: by log\n",
		"Info: agent made domain=120 help=colours.help\n", "Info: agent closed first=100\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("log: %s\nwant %s", log, want)
		}
	}
	if b, err := os.ReadFile(c.stderr); err != nil || len(b) > 0 {
		t.Errorf("stderr: %q, %v", b, err)
	}
}

// RunChild writes messages to stderr, without header and trailer. SIGHUP has no
// effect. The process ends when pmcd closes the stream.
func TestRunChild(t *testing.T) {
	c := startChild(t, true, "child")
	w := c.dial(t, nil)
	transporttest.Test(t, w, pdu.NewPMID(120, 0, 0), pdu.NewPMID(120, 0, 1))
	if err := syscall.Kill(c.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	fetch(t, w)
	w.Close()
	select {
	case <-c.Done():
	case <-time.After(testutil.Hangs):
		t.Fatal("the process has not ended")
	}
	log, err := os.ReadFile(c.stderr)
	if err != nil || c.Status() != 0 {
		t.Errorf("ended with %#x, want 0; %v", c.Status(), err)
	}
	want := regexp.MustCompile(`^this must not get into the protocol
\[.*\] child: colours\(\d+\) Info: by slog
\[.*\] child: colours\(\d+\) Info: agent made domain=120 help=""
\[.*\] child: colours\(\d+\) Info: agent closed first=100
$`)
	if !want.Match(log) {
		t.Errorf("stderr is\n%swant\n%v", log, want)
	}
}

// A socket accepts one connection, and pmcd's user has access to it.
func TestProcessSockets(t *testing.T) {
	for _, tt := range []struct{ option, network string }{{"-i", "tcp4"}, {"-6", "tcp6"}, {"-u", "unix"}} {
		t.Run(tt.network, func(t *testing.T) {
			arg := "0"
			switch tt.network {
			case "unix":
				arg = filepath.Join(t.TempDir(), "socket")
			case "tcp6":
				testutil.NeedIPv6(t)
			}
			c := startChild(t, false, tt.option, arg)
			addr := address(t, c.text)
			if tt.network == "unix" {
				checkOwner(t, arg)
			} else if host, _, _ := net.SplitHostPort(addr); !net.ParseIP(host).IsLoopback() {
				t.Errorf("listens on %s", addr)
			}
			conn, err := net.Dial(tt.network, addr)
			if err != nil {
				t.Fatal(err)
			}
			w := c.dial(t, conn.(wire.Conn))
			fetch(t, w)
			if second, err := net.Dial(tt.network, addr); err == nil {
				second.Close()
				t.Error("a second connection was accepted")
			}
			w.Close()
			if status, _ := c.wait(t); status != 0 {
				t.Errorf("ended with %#x, want 0", status)
			}
			if _, err := os.Stat(arg); tt.network == "unix" && err != nil {
				t.Errorf("the socket was removed: %v", err)
			}
		})
	}
}

// checkOwner checks the mode and the owner of a Unix socket.
func checkOwner(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil || st.Mode() != os.ModeSocket|0o660 {
		t.Fatalf("%v, %v; want mode 0660", st.Mode(), err)
	}
	u, err := user.Lookup(pcpUser())
	if err != nil || os.Geteuid() != 0 {
		return // it keeps its owner
	}
	if st := st.Sys().(*syscall.Stat_t); fmt.Sprint(st.Uid) != u.Uid || fmt.Sprint(st.Gid) != u.Gid {
		t.Errorf("owner %d:%d, want %s:%s", st.Uid, st.Gid, u.Uid, u.Gid)
	}
}

// On SIGTERM or SIGINT the agent is closed, and its parent sees the signal in the
// exit status.
func TestProcessSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for _, connected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/connected=%v", sig, connected), func(t *testing.T) {
				var c *process
				if connected {
					c = startChild(t, true)
					fetch(t, c.dial(t, nil))
				} else {
					c = startChild(t, false, "-i", "0")
					testutil.Eventually(t, "the agent is made", func() bool { return strings.Contains(c.text(), "agent made") })
				}
				syscall.Kill(c.PID(), sig)
				status, log := c.wait(t)
				if !status.Signaled() || status.Signal() != sig {
					t.Errorf("ended with %#x, want signal %v", status, sig)
				}
				if !strings.Contains(log, "agent closed") {
					t.Errorf("log: %s", log)
				}
			})
		}
	}
}

// The process survives SIGHUP, SIGPIPE and a log that is a broken pipe.
func TestProcessSurvives(t *testing.T) {
	setPCPUser(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(child.Spec{Argv: []string{"pmdacolours", "-d", "120", "-l", "-"}, Path: self, Pipes: true, Stderr: w})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(t.Context())
	w.Close()
	c := &process{Process: p}
	conn := c.dial(t, nil)
	r.Close()
	fetch(t, conn)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE} {
		syscall.Kill(c.PID(), sig)
		fetch(t, conn)
	}
	conn.Notify(transport.Notice{Client: 1, End: true}) // the agent logs it
	fetch(t, conn)
}

// A second signal ends the process at once, although Close hangs.
func TestProcessSecondSignal(t *testing.T) {
	c := startChild(t, true, "hangclose")
	fetch(t, c.dial(t, nil))
	syscall.Kill(c.PID(), syscall.SIGTERM)
	testutil.Eventually(t, "the process has ended", func() bool {
		syscall.Kill(c.PID(), syscall.SIGTERM)
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	})
	if log := c.text(); strings.Contains(log, "has not stopped") {
		t.Errorf("ended after its grace period; log:\n%s", log)
	}
	if status := c.Status(); status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %#x, want SIGTERM", status)
	}
}

// Exit codes are those of PCP's agents.
func TestProcessFailures(t *testing.T) {
	for _, tt := range []struct{ failure, want string }{
		{"fail", "Error: cannot start the agent: no colours today\n"},
		{"panic", "Error: agent panicked: ouch\n"},
		{"panicfetch", "Error: agent panicked: ouch\n"},
	} {
		t.Run(tt.failure, func(t *testing.T) {
			c := startChild(t, true, tt.failure)
			if tt.failure == "panicfetch" {
				w := c.dial(t, nil)
				transporttest.Do(w, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{1}}, new(pdu.Result))
			}
			status, log := c.wait(t)
			if status.ExitStatus() != 1 || !strings.Contains(log, tt.want) {
				t.Errorf("ended with %#x, log: %s\nwant status 1 and %s", status, log, tt.want)
			}
			if b, err := os.ReadFile(c.stderr); err != nil || len(b) > 0 {
				t.Errorf("stderr: %q, %v", b, err)
			}
		})
	}
}

// Root follows no link to the directory that another user can have made.
func TestLinkedDirectory(t *testing.T) {
	if l, err := listenUnix(filepath.Join(testutil.LinkedDir(t), "socket"), slog.New(slog.DiscardHandler)); err == nil {
		l.Close()
		t.Error("it listens")
	}
}
