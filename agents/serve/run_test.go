package serve

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

var listening = regexp.MustCompile(`Debug: listening address=(\S+)`)

// address waits until the log has the address of the agent's listener, and returns
// it.
func address(t *testing.T, log func() string) (addr string) {
	t.Helper()
	testutil.Eventually(t, "the agent listens", func() bool {
		m := listening.FindStringSubmatch(log())
		if m != nil {
			addr = m[1]
		}
		return m != nil
	})
	return addr
}

// logFrame matches a log from its header to its trailer.
var logFrame = regexp.MustCompile(`(?s)^Log for pmdacolours on \S+ started \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\n\n(.*)\nLog finished \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\n$`)

// run runs p with the arguments args as Main does, but does not change the state of the
// process.
func run(ctx context.Context, p Program, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	r := runner{Program: p, stdin: stdin, stdout: stdout, stderr: stderr, grace: grace}
	return r.run(ctx, args)
}

// running is a call of run.
type running struct {
	stderr testutil.Log
	code   chan int
}

func start(ctx context.Context, conn net.Conn, args ...string) *running {
	s := &running{code: make(chan int, 1)}
	go func() { s.code <- run(ctx, program(), args, conn, conn, &s.stderr) }()
	return s
}

// wait checks the exit code, and returns the log without header and trailer.
func (s *running) wait(t *testing.T, code int) string {
	t.Helper()
	select {
	case got := <-s.code:
		if got != code {
			t.Errorf("exit code %d, want %d; log:\n%s", got, code, &s.stderr)
		}
	case <-time.After(testutil.Hangs):
		t.Fatalf("run has not returned; log:\n%s", &s.stderr)
	}
	m := logFrame.FindStringSubmatch(s.stderr.String())
	if m == nil {
		t.Fatalf("log: %s", &s.stderr)
	}
	return m[1]
}

// An agent serves a pipe by default, and all kinds of sockets.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"pipe", nil},
		{"pipe by option", []string{"-p"}},
		{"inet", []string{"-i", "0"}},
		{"unix", []string{"-u", "socket"}},
		{"ipv6", []string{"-6", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "ipv6" {
				testutil.NeedIPv6(t)
			}
			t.Chdir(t.TempDir())
			// With a socket, run must not use stdin and stdout.
			here, there := pipe(t)
			s := start(t.Context(), there, append(tt.args, "-d", "120", "-l", "-", "-D", "libpmda")...)
			var conn wire.Conn = here
			if len(tt.args) > 1 {
				network := map[string]string{"-i": "tcp4", "-6": "tcp6", "-u": "unix"}[tt.args[0]]
				c, err := net.Dial(network, address(t, s.stderr.String))
				if err != nil {
					t.Fatal(err)
				}
				conn = c.(wire.Conn)
			}
			c, err := wire.Dial(t.Context(), conn, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			transporttest.Test(t, c, pdu.NewPMID(120, 0, 0), pdu.NewPMID(120, 0, 1))
			c.Close()
			log := s.wait(t, 0)
			if !strings.Contains(log, "Debug: received PDU type=FETCH client=3\n") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// pipe returns both ends of a stream.
func pipe(t *testing.T) (wire.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(testutil.SharedDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here.(wire.Conn), there
}

// Errors are logged, and set the exit code.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"fail", 1, "Error: cannot start the agent: no colours today"},
		{"panic", 1, "Error: agent panicked: ouch\ngoroutine "},
		{"panicfetch", 1, "Error: agent panicked: ouch\n\t| goroutine "},
		{"-i nosuchservice", 1, "Critical: listen tcp4: lookup tcp4/nosuchservice: "},
		{"-i 99999", 1, "Critical: listen tcp4: address 99999: invalid port"},
		{"-u /no/such/socket", 1, "Critical: listen unix /no/such/socket: bind: no such file or directory"},
		{"-l /no/such/log", 0, `pmdacolours: cannot open log "/no/such/log" for writing : no such file or directory`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			here, there := pipe(t)
			args := strings.Fields(tt.args)
			if args[0] != "-l" {
				args = append([]string{"-l", "-"}, args...)
			}
			s := start(t.Context(), there, args...)
			if !strings.HasPrefix(tt.want, "Critical: listen") {
				if c, err := wire.Dial(t.Context(), here, wire.Options{}); err == nil {
					transporttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{1}}, new(pdu.Result))
					c.Close()
				} else if tt.code == 0 {
					t.Error(err)
				}
			}
			select {
			case code := <-s.code:
				if code != tt.code {
					t.Errorf("exit code %d, want %d", code, tt.code)
				}
			case <-time.After(testutil.Hangs):
				t.Fatal("run has not returned")
			}
			if got := s.stderr.String(); !strings.Contains(got, tt.want) {
				t.Errorf("log: %s\nwant %s", got, tt.want)
			}
		})
	}
}

// run returns when ctx ends, whatever the agent does. It closes the agent unless
// the agent is in a call.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		connect    bool
		code       int
		want       string
	}{
		{"waiting for a request", "", true, 0, "agent closed"},
		{"waiting for a connection", "-u socket", false, 0, "agent closed"},
		{"waiting for CREDS", "", false, 0, "agent closed"},
		{"New hangs", "hang", false, 1, "the agent has not stopped after 20ms: exiting without it"},
		{"Close hangs", "hangclose", true, 1, "the agent has not stopped after 20ms: exiting without it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			here, there := pipe(t)
			s := &running{code: make(chan int, 1)}
			made := make(chan struct{}, 1)
			p := program()
			p.New = func(s Start) (agents.Agent, error) {
				made <- struct{}{}
				return newColours(s)
			}
			r := runner{Program: p, stdin: there, stdout: there, stderr: &s.stderr, grace: 20 * time.Millisecond}
			if tt.code == 0 {
				r.grace = 30 * time.Second
			}
			go func() { s.code <- r.run(ctx, append([]string{"-l", "-"}, strings.Fields(tt.args)...)) }()
			<-made
			if tt.connect {
				if _, err := wire.Dial(t.Context(), here, wire.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if log := s.wait(t, tt.code); !strings.Contains(log, tt.want) {
				t.Errorf("log: %s\nwant %s", log, tt.want)
			}
		})
	}
}

// run does not wait for an agent that hangs after pmcd has closed the stream.
func TestStreamEndsWhileBusy(t *testing.T) {
	here, there := pipe(t)
	s := &running{code: make(chan int, 1)}
	r := runner{Program: program(), stdin: there, stdout: there, stderr: &s.stderr, grace: 20 * time.Millisecond}
	go func() { s.code <- r.run(t.Context(), []string{"-l", "-", "hangclose"}) }()
	here.Close()
	s.wait(t, 1)
}

// listenUnix replaces an old socket, but no file of another kind.
func TestUnixSocketPath(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, there := pipe(t)
	if log := start(t.Context(), there, "-l", "-", "-u", "file").wait(t, 1); !strings.Contains(log, "address already in use") {
		t.Errorf("log: %s", log)
	}
	if b, err := os.ReadFile("file"); string(b) != "precious" {
		t.Errorf("file: %q, %v", b, err)
	}
	for _, replaced := range []bool{false, true} { // the socket is not removed at the end
		ctx, cancel := context.WithCancel(t.Context())
		s := start(ctx, there, "-l", "-", "-D", "libpmda", "-u", "socket")
		address(t, s.stderr.String)
		if st, err := os.Stat("socket"); err != nil || st.Mode() != os.ModeSocket|0o660 {
			t.Errorf("socket: %v, %v; want mode 0660", st.Mode(), err)
		}
		cancel()
		if log := s.wait(t, 0); strings.Contains(log, "Warning: removed the old socket path=socket") != replaced {
			t.Errorf("log: %s\nreplaced: want %v", log, replaced)
		}
	}
}
