package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A harness is a Daemon with agents of the test's own and a client or two.
type harness struct {
	*Daemon
	t    *testing.T
	tcp  string
	unix string
	logs *logtest.Log
	dir  string
	stop func() // ends Run, and waits for that

	mu     sync.Mutex
	agents map[int]func(wire.Conn) // what plays each agent, by domain
	opens  map[int]int             // how often each was started
}

// noIdent is what context labels are about.
const noIdent = 0xffffffff

// play has f be the agent of a domain from its next start on. It returns
// when the agent has ended.
func (r *harness) play(domain int, f func(wire.Conn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents[domain] = f
}

// serveAgent plays an agents.Agent.
func serveAgent(a agents.Agent) func(wire.Conn) {
	return func(c wire.Conn) { serve.Serve(context.Background(), a, c) }
}

// These are shorter here.
var show, showSets, testNames = agentsettest.Show, agentsettest.ShowSets, agentsettest.Names

// newHarness starts a Daemon whose agents are those of domains 240 to 242, with
// change to the Config.
func newHarness(t *testing.T, change func(*Config), play map[int]func(wire.Conn)) *harness {
	t.Helper()
	testutil.CheckLeaks(t)
	r := &harness{t: t, dir: t.TempDir(), agents: play, opens: make(map[int]int)}
	if r.agents == nil {
		r.agents = make(map[int]func(wire.Conn))
	}
	for domain := 240; domain <= 242; domain++ {
		if r.agents[domain] == nil {
			r.agents[domain] = serveAgent(&agentsettest.Tester{Domain: domain})
		}
	}
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\nv 242 pipe binary v\n")
	r.write("pmns", testNames)
	r.unix = filepath.Join(r.dir, "sock")
	l, err := Listen([]string{"127.0.0.1"}, []int{0}, r.unix)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range l.Addrs() {
		if addr.Network() == "tcp" {
			r.tcp = addr.String()
		}
	}
	log, logs := logtest.NewLog()
	r.logs = logs
	cfg := Config{
		Listeners: l,
		Files: Files{
			Conf:      filepath.Join(r.dir, "pmcd.conf"),
			Namespace: Namespace{Path: filepath.Join(r.dir, "pmns")},
			Labels:    r.dir,
		},
		Agents: Agents{Open: r.open, RequestTimeout: time.Minute, HandshakeTimeout: time.Minute, NoRestart: true},
		Host:   Host{RunDir: r.dir, TmpDir: r.dir},
		Log:    log,
	}
	if change != nil {
		change(&cfg)
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "labels"), 0o777); err != nil {
		t.Fatal(err)
	}
	if r.Daemon, err = New(t.Context(), cfg); err != nil {
		l.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			for _, e := range logs.All() {
				t.Logf("log: %s", e.Message)
			}
		}
	})
	return r
}

func (r *harness) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o666); err != nil {
		r.t.Fatal(err)
	}
	r.touch(name)
}

// touched is the modification time of the file that was written last, in full seconds: a file
// system may have no others. Files that are not touched have other times.
var touched = time.Now().Add(24 * time.Hour).Truncate(time.Second)

// touch gives a file that was just written a modification time of its own.
func (r *harness) touch(name string) {
	r.t.Helper()
	touched = touched.Add(time.Second)
	if err := os.Chtimes(filepath.Join(r.dir, name), touched, touched); err != nil {
		r.t.Fatal(err)
	}
}

// open is the Daemon's OpenFunc.
func (r *harness) open(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var ends [2]wire.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		ends[i] = c.(wire.Conn)
	}
	r.mu.Lock()
	f := r.agents[spec.Domain]
	r.opens[spec.Domain]++
	r.mu.Unlock()
	go func() {
		defer ends[1].Close()
		f(ends[1])
	}()
	c, err := wire.Dial(ctx, ends[0], opt)
	if err != nil {
		return nil, err
	}
	return &transport.Conn{Transport: c, In: fds[0], Out: fds[0]}, nil
}

// logged reports whether a line of the log contains text.
func (r *harness) logged(text string) bool {
	for _, e := range r.logs.All() {
		if strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// awaitLogged waits until a line of the log contains text. What makes another goroutine log
// it may be seen before.
func (r *harness) awaitLogged(t *testing.T, text string) {
	t.Helper()
	testutil.Eventually(t, fmt.Sprintf("%q is in the log", text), func() bool { return r.logged(text) })
}

// awaitStarts waits until all agents were started.
func (r *harness) awaitStarts() {
	for _, a := range r.routes.Load().Agents() {
		<-a.Started()
	}
}

// A client is a client of the Daemon. Most tests here are of the protocol itself: of PDUs in
// some order, with some error code, with a reply that is not read. So it is no pmapi.Client.
type client struct {
	t *testing.T
	*pdutest.Client
}

// dial connects and greets.
func (r *harness) dial() *client {
	r.t.Helper()
	return r.dialTo("tcp", r.tcp, 0)
}

func (r *harness) dialTo(network, addr string, flags pdu.Features) *client {
	r.t.Helper()
	c := r.connect(network, addr)
	if err := c.Handshake(flags); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// connect connects and says nothing.
func (r *harness) connect(network, addr string) *client {
	r.t.Helper()
	return r.wrap(pdutest.Dial(network, addr, ""))
}

// wrap returns a client that has connected, for the test.
func (r *harness) wrap(c *pdutest.Client, err error) *client {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.From = 7
	return &client{r.t, c}
}

// in returns the same client for a subtest.
func (c *client) in(t *testing.T) *client {
	sub := *c
	sub.t = t
	return &sub
}

func (c *client) send(ms ...pdu.Message) {
	c.t.Helper()
	if err := c.Send(ms...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) sendBytes(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) recv() pdu.Message {
	c.t.Helper()
	b, err := c.Receive()
	if err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	from, m, err := pdu.Parse(append([]byte(nil), b...))
	if err != nil {
		c.t.Fatal(err)
	}
	if from != 0 {
		c.t.Errorf("%v from %d, want 0", m.Type(), from)
	}
	return m
}

// do sends a request and returns the reply.
func (c *client) do(m pdu.Message) pdu.Message {
	c.t.Helper()
	c.send(m)
	return c.recv()
}

// ask is a request that needs no agent.
func (c *client) ask() {
	c.t.Helper()
	if got := show(c.do(&pdu.PMNSNames{Names: []string{"u.one"}})); got != "1 [241.0.1]" {
		c.t.Errorf("names: %s", got)
	}
}

// fetch returns what a fetch brings, and the state changes ahead of it.
func (c *client) fetch(ids ...pdu.PMID) (sets []pdu.ValueSet, changes pdu.Errno) {
	c.t.Helper()
	switch m := c.do(&pdu.HighResFetch{PMIDs: ids}).(type) {
	case *pdu.HighResResult:
		return m.Sets, 0
	case *pdu.Error:
		if m.Code > 0 {
			return c.recv().(*pdu.HighResResult).Sets, m.Code
		}
		return nil, m.Code
	default:
		c.t.Fatalf("%v in reply to a fetch", m.Type())
		return nil, 0
	}
}

// closed fails the test unless the Daemon has closed the connection and sent nothing
// more.
func (c *client) closed() {
	c.t.Helper()
	if b, err := c.Receive(); err == nil {
		c.t.Errorf("got %x, want the end", b)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Error("still connected")
	}
}

// closed reports whether c, which nothing is sent to, is closed; nil counts.
func closed(c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}
