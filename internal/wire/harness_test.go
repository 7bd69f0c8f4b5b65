package wire_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// oneMetricAgent is an Agent with one metric.
type oneMetricAgent struct{}

var metricID = pdu.NewPMID(400, 0, 1)

func (oneMetricAgent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != metricID {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom}, nil
}

func (oneMetricAgent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != metricID {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, 42)
	}
	return nil
}

// The test binary is also a PMDA: under the name pmdaonemetric it serves a
// oneMetricAgent on its standard input and output.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pmdaonemetric" {
		serve.Serve(context.Background(), oneMetricAgent{}, stdio{os.Stdin, os.Stdout})
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for children
	os.Exit(m.Run())
}

// stdio are the PMDA's ends of two pipes.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// startPMDA runs argv and returns a Client of it. Both are gone when t ends.
func startPMDA(t testing.TB, opt wire.Options, argv ...string) (*wire.Client, *child.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	p, err := child.Start(child.Spec{Argv: argv, Pipes: true, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		p.Stop(ctx)
	})
	c, err := wire.Dial(ctx, p.Pipes, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, p
}

// startGatedPMDA starts a PMDA that is a shell script. Its shellGate waits for the call of
// open.
func startGatedPMDA(t testing.TB, opt wire.Options, script string) (c *wire.Client, open func()) {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "open")
	c, _ = startPMDA(t, opt, "/bin/sh", "-c", script, "sh", gate)
	return c, func() {
		t.Helper()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func startSelf(t testing.TB) *wire.Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pmda := filepath.Join(t.TempDir(), "pmdaonemetric")
	if err := os.Symlink(self, pmda); err != nil {
		t.Fatal(err)
	}
	c, _ := startPMDA(t, wire.Options{}, pmda)
	return c
}

// socketPair returns both ends of a stream.
func socketPair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]wire.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(wire.Conn)
	}
	return ends[0], ends[1]
}

// pipePair is socketPair for two pipes. Calls with MayBlock read here directly.
func pipePair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	var ends [4]*os.File
	for i := 0; i < len(ends); i += 2 {
		var err error
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	return child.NewPipes(ends[0], ends[3]), child.NewPipes(ends[2], ends[1])
}

// directPair is pipePair, but here cannot be switched back from direct reads to the
// poller, as if no descriptor were left for that.
func directPair(t testing.TB) (here, there wire.Conn) {
	t.Helper()
	here, there = pipePair(t)
	return alwaysDirect{here.(*child.Pipes)}, there
}

type alwaysDirect struct{ *child.Pipes }

func (s alwaysDirect) Direct(on bool) bool { return on && s.Pipes.Direct(on) }

// forEachPair runs test with a stream that is read through the poller, and with two
// that are read directly by calls with MayBlock. These are the calls of
// sendDescReq, sendDescReqTimeout and doDescReq.
func forEachPair(t *testing.T, test func(t *testing.T, pair pairFunc)) {
	t.Run("sockets", func(t *testing.T) { test(t, socketPair) })
	t.Run("pipes", func(t *testing.T) { test(t, pipePair) })
	t.Run("direct", func(t *testing.T) { test(t, directPair) })
}

type pairFunc func(testing.TB) (here, there wire.Conn)

// mayBlockTransport is a Transport whose calls may block their thread.
type mayBlockTransport struct{ transport.Transport }

func (a mayBlockTransport) Send(call *transport.Call) (transport.Reply, error) {
	call.MayBlock = true
	return a.Transport.Send(call)
}

// serveAgent runs a with Serve and returns a Client of it. Both are gone when t
// ends.
func serveAgent(t *testing.T, a agents.Agent, opt wire.Options) *wire.Client {
	t.Helper()
	here, there := socketPair(t)
	served := make(chan error, 1)
	go func() { served <- serve.Serve(context.Background(), a, there) }()
	c, err := wire.Dial(t.Context(), here, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// sendDescReqTimeout sends a DESC_REQ and does not wait for the reply.
func sendDescReqTimeout(t *testing.T, c transport.Transport, timeout time.Duration, batched bool) transport.Reply {
	t.Helper()
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: metricID})
	if err != nil {
		t.Fatal(err)
	}
	call := &transport.Call{MayBlock: true, Req: req, Timeout: timeout, Batched: batched}
	r, err := c.Send(call)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
