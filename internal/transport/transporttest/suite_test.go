package transporttest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

const domain = 400

// The test binary is also a PMDA: under the name pmdaref it serves an
// transporttest.Agent on its standard input, which is a socket.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pmdaref" {
		serve.Serve(context.Background(), &transporttest.Agent{Domain: domain}, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// socketPair returns both ends of a stream; the second is for a child, too.
func socketPair(t *testing.T) (wire.Conn, *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	here, there := os.NewFile(uintptr(fds[0]), "here"), os.NewFile(uintptr(fds[1]), "there")
	defer here.Close()
	c, err := net.FileConn(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	return c.(wire.Conn), there
}

func dial(t *testing.T, conn wire.Conn, opt wire.Options) transport.Transport {
	t.Helper()
	c, err := wire.Dial(t.Context(), conn, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTransports runs the suite with one agent over several transports. Plugins,
// programs and shared objects are tested in the packages that start them.
func TestTransports(t *testing.T) {
	a := &transporttest.Agent{Domain: domain}
	stream := func(opt wire.Options) func(*testing.T) transport.Transport {
		return func(t *testing.T) transport.Transport {
			here, there := socketPair(t)
			go serve.Serve(context.Background(), a, there) // ends with here
			return dial(t, here, opt)
		}
	}
	for name, open := range map[string]func(*testing.T) transport.Transport{
		"Inline":        func(*testing.T) transport.Transport { return transport.Inline(a) },
		"Local":         func(*testing.T) transport.Transport { return transport.Local(a) },
		"stream":        stream(wire.Options{}),
		"stream, depth": stream(wire.Options{Depth: 8}),
		"child": func(t *testing.T) transport.Transport {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			here, there := socketPair(t)
			cmd := exec.Command(self)
			cmd.Args = []string{"pmdaref"}
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			cmd.Stdin, cmd.Stderr = there, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			there.Close()
			t.Cleanup(func() { cmd.Wait() }) // after Close
			return dial(t, here, wire.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := open(t)
			defer tr.Close()
			transporttest.Test(t, tr, a.Metrics()...)
		})
	}
}

// recordingTB collects the failures that the suite reports.
type recordingTB struct {
	testing.TB
	failures []string
}

func (c *recordingTB) Helper() {}

func (c *recordingTB) Errorf(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *recordingTB) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	panic(c)
}

// brokenAgent is an Agent that breaks one promise.
type brokenAgent struct {
	transporttest.Agent
	promise string
}

func (b *brokenAgent) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	d, err := b.Agent.Desc(ctx, o, id)
	switch b.promise {
	case "own descriptor":
		d.PMID++
	case "own domain":
		d.InDom = pdu.NewInDom(1, 1)
	case "unknown metric":
		err = nil
	case "type of values":
		d.ValueType = pdu.Metric64
	}
	return d, err
}

func (b *brokenAgent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	req := *r
	switch b.promise {
	case "order":
		req.PMIDs = append(append([]pdu.PMID{}, r.PMIDs[1:]...), r.PMIDs[0])
	case "one set each":
		req.PMIDs = r.PMIDs[1:]
	case "profile":
		req.Profile = new(pdu.Profile)
	case "asked for":
		if r.Profile.Exclude {
			req.Profile = &pdu.Profile{Exclude: true}
		}
	}
	return b.Agent.Fetch(ctx, &req, w)
}

func (b *brokenAgent) Instances(ctx context.Context, o agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	insts, err := b.Agent.Instances(ctx, o, indom)
	switch b.promise {
	case "instances of values":
		insts = insts[:len(insts)/2]
	case "instances differ":
		insts = append(append([]pdu.Inst{}, insts...), insts...)
	case "unknown domain":
		err = nil
	}
	return insts, err
}

func (b *brokenAgent) Text(ctx context.Context, o agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	switch text, err := b.Agent.Text(ctx, o, id, oneline); b.promise {
	case "one line":
		return "two\nlines", nil
	case "code of a missing text":
		return "", pdu.ErrnoPMID
	default:
		return text, err
	}
}

func (b *brokenAgent) Labels(ctx context.Context, o agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	sets, err := b.Agent.Labels(ctx, o, kind, ident)
	switch b.promise {
	case "one set":
		sets = append(sets, sets...)
	case "instances of labels":
		for i := range sets {
			sets[i].Inst = 7
		}
	case "flags":
		for _, set := range sets {
			set.Labels[0].Flags = 0
		}
	case "place of labels":
		for _, set := range sets {
			set.Labels[1].ValueLen--
		}
	}
	return sets, err
}

func (b *brokenAgent) Store(ctx context.Context, o agents.Origin, r *pdu.Result) error {
	if b.promise == "store" {
		return nil
	}
	return b.Agent.Store(ctx, o, r)
}

func (b *brokenAgent) PMID(ctx context.Context, o agents.Origin, name string) (pdu.PMID, error) {
	id, err := b.Agent.PMID(ctx, o, name)
	if b.promise == "names" {
		id++
	}
	return id, err
}

func (b *brokenAgent) Children(ctx context.Context, o agents.Origin, name string) ([]pdu.Child, error) {
	children, err := b.Agent.Children(ctx, o, name)
	if b.promise == "leaves" {
		for i := range children {
			children[i].Leaf = false
		}
	}
	return children, err
}

func (b *brokenAgent) Traverse(ctx context.Context, o agents.Origin, name string) ([]string, error) {
	if b.promise == "traverse" {
		name = "ref.level"
	}
	return b.Agent.Traverse(ctx, o, name)
}

// The suite fails for an agent that breaks a promise, and says which one.
func TestBrokenPromises(t *testing.T) {
	for promise, want := range map[string]string{
		"own descriptor":         "Desc(400.0.0) is of 400.0.1",
		"own domain":             "instance domain 1.1 is another agent's",
		"unknown metric":         "Desc of an unknown metric: got <nil>",
		"type of values":         "is of type 64 and in format 0",
		"order":                  "set 0 is of 400.0.0, want 400.4095.1023",
		"one set each":           "Fetch([400.4095.1023 ",
		"profile":                "Fetch of no instances: 400.0.2 has instance 0",
		"asked for":              "Fetch of one instance: 400.0.2 has no value for 2",
		"instances of values":    "400.0.2 has instance 1, which is not in 400.0",
		"instances differ":       "Instances of 400.0: 0 is -1 or occurs twice",
		"unknown domain":         "Instances of an unknown domain: got <nil>",
		"one line":               "has several lines",
		"code of a missing text": "Text of 400.0.0 (",
		"one set":                "2 sets",
		"instances of labels":    "7 is not an instance",
		"flags":                  `"ident" has flags 0x0`,
		"place of labels":        "or its value is not JSON",
		"store":                  "Store of an unknown metric: got ",
		"names":                  "PMID(ref.level) is [400.0.1], <nil>; want 400.0.0",
		"leaves":                 "want level to be a leaf",
		"traverse":               "Traverse(ref.text) is [\"ref.level\"], <nil>; want ref.text among it",
		"":                       "",
	} {
		t.Run(promise, func(t *testing.T) {
			b := &brokenAgent{transporttest.Agent{Domain: domain}, promise}
			c := recordingTB{TB: t}
			func() {
				defer func() {
					if v := recover(); v != nil && v != any(&c) {
						panic(v)
					}
				}()
				transporttest.Test(&c, transport.Inline(b), b.Metrics()...)
			}()
			all := strings.Join(c.failures, "\n")
			if !strings.Contains(all, want) || want == "" && all != "" {
				t.Errorf("the suite says %q, want %q", all, want)
			}
		})
	}
}
