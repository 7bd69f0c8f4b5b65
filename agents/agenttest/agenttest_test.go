package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

const domain = 400

var metric = pdu.NewPMID(domain, 0, 0)

// recordingTB collects the failures that a test reports.
type recordingTB struct {
	testing.TB
	failures []string
}

func (r *recordingTB) Helper() {}

func (r *recordingTB) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recordingTB) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// failures returns what f reports.
func failures(t *testing.T, f func(testing.TB)) string {
	r := recordingTB{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(&r) {
				panic(v)
			}
		}()
		f(&r)
	}()
	return strings.Join(r.failures, "\n")
}

// wrongAgent is an Agent whose descriptors are of another metric. It counts how often
// it was closed.
type wrongAgent struct {
	agents.Agent
	closed int
}

func (a *wrongAgent) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	d, err := a.Agent.Desc(ctx, o, id)
	d.PMID++
	return d, err
}

func (a *wrongAgent) Close() error {
	a.closed++
	return nil
}

func newTrivial(t *testing.T) agents.Agent {
	a, err := trivial.New(domain)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// connect returns both ends of a TCP connection.
func connect(t *testing.T) (here, there net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err == nil {
		there, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

const wrongDesc = "Desc(400.0.0) is of 400.0.1"

func TestTest(t *testing.T) {
	agenttest.Test(t, newTrivial(t), metric)
	a := &wrongAgent{Agent: newTrivial(t)}
	got := failures(t, func(tb testing.TB) { agenttest.Test(tb, a, metric) })
	if !strings.Contains(got, wrongDesc) {
		t.Errorf("got %q, want %q", got, wrongDesc)
	}
	if a.closed != 0 {
		t.Error("Test has closed the agent")
	}
}

// TestStream finds the errors of a PMDA, and one that is no PMDA. It leaves no
// goroutine and no connection.
func TestTestStream(t *testing.T) {
	for _, tt := range []struct {
		name string
		pmda func(t *testing.T, conn net.Conn) error
		want string
	}{
		{"a PMDA", func(t *testing.T, conn net.Conn) error { return serve.Serve(t.Context(), newTrivial(t), conn) }, ""},
		{"a PMDA with an error", func(t *testing.T, conn net.Conn) error {
			return serve.Serve(t.Context(), &wrongAgent{Agent: newTrivial(t)}, conn)
		}, wrongDesc},
		{"no PMDA", func(_ *testing.T, conn net.Conn) error { return conn.Close() }, "version exchange: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testutil.CheckGoroutines(t)
			here, there := connect(t)
			ended := make(chan error, 1)
			go func() { ended <- tt.pmda(t, there) }()
			got := failures(t, func(tb testing.TB) { agenttest.TestStream(tb, here, metric) })
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if err := <-ended; err != nil {
				t.Errorf("the PMDA: %v", err)
			}
			if _, err := here.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
}

func TestTestStreamNeedsASocket(t *testing.T) {
	here, there := net.Pipe()
	got := failures(t, func(tb testing.TB) { agenttest.TestStream(tb, here, metric) })
	if want := "a *net.pipe is neither a TCP nor a Unix connection"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}

type panickingAgent struct{ agents.Agent }

func (panickingAgent) Desc(context.Context, agents.Origin, pdu.PMID) (pdu.Desc, error) { panic("ouch") }

func TestDo(t *testing.T) {
	a := newTrivial(t)
	var d pdu.Desc
	if err := agenttest.Do(a, agents.Origin{}, &pdu.DescReq{PMID: metric}, &d); err != nil || d.PMID != metric {
		t.Errorf("Desc: %v, %v", d, err)
	}
	if err := agenttest.Do(a, agents.Origin{}, &pdu.DescReq{PMID: metric + 1}, &d); err != pdu.ErrnoPMID {
		t.Errorf("Desc of an unknown metric: got %v, want %v", err, pdu.ErrnoPMID)
	}
	if err := agenttest.Do(panickingAgent{a}, agents.Origin{}, &pdu.DescReq{PMID: metric}, &d); err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("a panic: %v", err)
	}
}
