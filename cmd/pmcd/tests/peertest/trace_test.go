package peertest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	builtin "github.com/gopcp/pmcd/agents/builtin/trace"
	"github.com/gopcp/pmcd/agents/trace"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// A traceAgent is pmdatrace, or ours.
type traceAgent struct {
	name string
	transport.Transport
	port int
}

// traceAgents starts pmdatrace and ours with the same options: rates are computed each
// second, so that they are soon there.
func traceAgents(t *testing.T) []traceAgent {
	t.Helper()
	peer.Require(t)
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	c := startPMDA(t, "trace", 10, "-M", "root", "-I", strconv.Itoa(port), "-T", "60", "-N", "60", "-U", "1,0,0,2,0,0", "-V", "0,1,0,0,3,0")
	testutil.Eventually(t, "pmdatrace listens", func() bool { // which is after the handshake
		conn, err := net.Dial("tcp4", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return false
		}
		defer conn.Close()
		_, err = io.ReadFull(conn, make([]byte, 16))
		return err == nil
	})
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := builtin.Open(10, builtin.Options{Listener: l, Period: time.Minute, Buckets: 60,
		Log:          slog.New(slog.DiscardHandler),
		ObserveUnits: pdu.NewUnits(1, 0, 0, 2, 0, 0), CounterUnits: pdu.NewUnits(0, 1, 0, 0, 3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	ours := transport.Inline(a)
	t.Cleanup(func() { ours.Close() })
	return []traceAgent{{"pmdatrace", c, port}, {"ours", ours, l.Addr().(*net.TCPAddr).Port}}
}

// env is the environment of a program that sends to a.
func (a traceAgent) env() []string {
	return append(os.Environ(), "PCP_TRACE_HOST=127.0.0.1", "PCP_TRACE_TIMEOUT=60", "PCP_TRACE_REQTIMEOUT=60", "PCP_TRACE_PORT="+strconv.Itoa(a.port))
}

// traceCalls compiles the program in testdata.
func traceCalls(t *testing.T) string {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/trace.h")
	program := filepath.Join(t.TempDir(), "calls")
	if out, err := exec.Command("cc", "-o", program, "testdata/trace/calls.c", "-lpcp_trace").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// Programs that use libpcp_trace, pmtrace, and our client get the same answers from
// pmdatrace and from ours. Afterwards both have the same metrics, instances and values.
func TestTrace(t *testing.T) {
	both := traceAgents(t)
	calls, pmtrace := traceCalls(t), testutil.NeedProgram(t, "pmtrace")
	outputs := make([]string, len(both))
	for i, a := range both {
		var out strings.Builder
		run := func(args ...string) {
			t.Helper()
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = a.env()
			b, err := cmd.CombinedOutput()
			fmt.Fprintf(&out, "%s %v\n%s", args[1:], err, b)
		}
		run(calls, "c")
		run(calls, "a", "async")
		run(pmtrace, "-v", "3.25", "pmtrace")
		run(pmtrace, "-c", "7", "pmtrace")
		run(pmtrace, "-h", "127.0.0.1", "pmtrace")
		run(pmtrace, "-q", "-e", "exit 3", "pmtrace -e")
		for _, async := range []bool{false, true} {
			client := trace.New(trace.Options{Host: "127.0.0.1", Port: a.port, Async: async})
			for n := range 5 {
				for _, err := range []error{
					client.Transact(t.Context(), "go", time.Duration(n+1)*time.Second),
					client.Transact(t.Context(), fmt.Sprint("go ", n), 1500*time.Millisecond),
					client.Point(t.Context(), "\xff not UTF-8 "+strings.Repeat("x", 110)),
					client.Observe(t.Context(), "go", float64(n)),
					client.Counter(t.Context(), "go", float64(n)),
				} {
					if err != nil {
						t.Errorf("%s: %v", a.name, err)
					}
				}
			}
			if err := client.Close(); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
		if err := (trace.New(trace.Options{Host: "127.0.0.1", Port: a.port})).Begin("last").End(t.Context()); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		outputs[i] = out.String()
	}
	same(t, "output", outputs[0], outputs[1])
	if !strings.Contains(outputs[1], "begin again: -12001 ") || strings.Count(outputs[1], "point: 0 ") != 3 {
		t.Errorf("output: %s", outputs[1])
	}

	tree, err := pmnsload.Load("../../../../agents/builtin/trace/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	c, ours := both[0], both[1]
	rate, _ := tree.PMID("trace.transact.rate")
	for _, a := range both {
		testutil.Eventually(t, a.name+" has computed rates of all", func() bool { return len(newReader(a).values(t, rate)) == 10 })
	}
	for serial := range 4 {
		req := &pdu.InstanceReq{InDom: pdu.NewInDom(10, serial), Inst: pdu.NoInst}
		same(t, fmt.Sprint("instances of 10.", serial), fmt.Sprint(ask[pdu.Instance](t, c, req)), fmt.Sprint(ask[pdu.Instance](t, ours, req)))
	}
	values := 0
	for e := range tree.All("trace") {
		d := &pdu.DescReq{PMID: e.PMID}
		theirs := ask[pdu.Desc](t, c, d)
		if e.Name == "trace.control.debug" {
			same(t, "type of trace.control.debug", pdu.Metric32, theirs.ValueType)
			theirs.ValueType = pdu.MetricString // since PCP 7.2
		}
		same(t, e.Name, theirs, ask[pdu.Desc](t, ours, d))
		was, is := newReader(c).values(t, e.PMID), newReader(ours).values(t, e.PMID)
		switch e.Name {
		case "trace.control.debug", "trace.control.port":
			continue
		case "trace.transact.total_time", "trace.transact.ave_time", "trace.transact.min_time", "trace.transact.max_time":
			for _, m := range []map[string]string{was, is} { // measured by the programs
				for _, tag := range []string{"c first", "a first", "pmtrace -e", "last"} {
					if m[tag] == "" {
						t.Errorf("%s: no value of %q", e.Name, tag)
					}
					m[tag] = "measured"
				}
			}
		}
		if !maps.Equal(was, is) {
			t.Errorf("%s\npmdatrace has %v\nours          %v", e.Name, was, is)
		}
		values += len(is)
	}
	if values < 100 {
		t.Errorf("only %d values", values)
	}
}

// Requests that fail, and stores, have the same results. A reset has the same effect.
func TestTraceErrors(t *testing.T) {
	both := traceAgents(t)
	for _, a := range both {
		client := trace.New(trace.Options{Host: "127.0.0.1", Port: a.port})
		for _, tag := range []string{"a", "b", "c"} {
			if err := client.Point(t.Context(), tag); err != nil {
				t.Fatal(err)
			}
		}
		client.Close()
	}
	do := func(a traceAgent, req, reply pdu.Message) string {
		err := transporttest.Do(a.Transport, agents.Origin{}, req, reply)
		return fmt.Sprintf("%v %+v", err, reply)
	}
	number := func(id pdu.PMID) pdu.Message {
		return &pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Values: []pdu.Value{{Inst: pdu.NoInst, Word: 1}}}}}
	}
	for _, req := range []pdu.Message{
		&pdu.DescReq{PMID: pdu.NewPMID(10, 0, 20)},
		&pdu.DescReq{PMID: pdu.NewPMID(10, 1, 0)},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 4), Inst: pdu.NoInst},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: 2},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: 9},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: pdu.NoInst, Name: "b"},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: pdu.NoInst, Name: "z"},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 0), Inst: pdu.NoInst},
		&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(10, 0, 20), pdu.NewPMID(10, 0, 0), pdu.NewPMID(10, 1, 6), pdu.NewPMID(10, 0, 6)}},
		number(pdu.NewPMID(10, 0, 11)), number(pdu.NewPMID(10, 0, 6)), number(pdu.NewPMID(10, 0, 20)), number(pdu.NewPMID(10, 1, 15)),
		number(pdu.NewPMID(10, 0, 15)),
		&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(10, 0, 6)}},
		&pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: pdu.NoInst},
	} {
		reply := func() pdu.Message {
			switch req.(type) {
			case *pdu.DescReq:
				return new(pdu.Desc)
			case *pdu.InstanceReq:
				return new(pdu.Instance)
			case *pdu.Fetch:
				return new(pdu.Result)
			}
			return new(pdu.Error)
		}
		same(t, fmt.Sprintf("%T %+v", req, req), do(both[0], req, reply()), do(both[1], req, reply()))
	}
	for _, a := range both {
		client := trace.New(trace.Options{Host: "127.0.0.1", Port: a.port})
		if err := client.Point(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(10, 1), Inst: pdu.NoInst}
	same(t, "instances after a reset", fmt.Sprint(ask[pdu.Instance](t, both[0], req)), fmt.Sprint(ask[pdu.Instance](t, both[1], req)))
}

// What clients can send that libpcp_trace does not has the same effect: ACKs, and whether
// the connection stays.
func TestTraceProtocol(t *testing.T) {
	both := traceAgents(t)
	const good = "0000001c 00007051 00000001 01030180 3fe0000000000000 7431007e"
	for _, tt := range []struct {
		name, bytes string
		acks        int // with the greeting
	}{
		{"one", good, 2},
		{"several at once", good + strings.Replace(good, "01030180", "01030380", 1) + strings.Replace(good, "01030180", "01030400", 1) + good, 4},
		{"empty tag", strings.Replace(good, "01030180", "01010280", 1), 2},
		{"longer than needed", "00000028 00007051 00000001 01030480 3fe0000000000000 7431007e 000000000000000000000000", 2},
		{"other flags", strings.Replace(good, "01030180", "010302ff", 1), 2},
		{"no flag", strings.Replace(good, "01030180", "0103027f", 1), 1},
		{"short", "0000000f 00007051 00000001 000000", 1},
		{"long", "00000114 00007051 00000001 01030180", 1},
		{"negative length", "80000000 00007051 00000001 01030180", 1},
		{"an ACK", "00000010 00007050 00000001 00000001", 1},
		{"unknown type", "00000010 00007060 00000001 00000001", 1},
		{"version", strings.Replace(good, "01030180", "02030180", 1), 1},
		{"tag type 0", strings.Replace(good, "01030180", "01030080", 1), 1},
		{"tag type 5", strings.Replace(good, "01030180", "01030580", 1), 1},
		{"tag of no bytes", strings.Replace(good, "01030180", "01000180", 1), 1},
		{"tag of 126 bytes", "00000098 00007051 00000001 017e0180 3fe0000000000000" + strings.Repeat("78", 124) + "00000000", 1},
		{"tag of 125 bytes", "00000098 00007051 00000001 017d0180 3fe0000000000000" + strings.Repeat("78", 124) + "00000000", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var results [2]string
			for i, a := range both {
				c, err := net.Dial("tcp4", fmt.Sprint("127.0.0.1:", a.port))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(testutil.Hangs))
				b, err := hex.DecodeString(strings.ReplaceAll(tt.bytes, " ", ""))
				if err != nil {
					t.Fatal(err)
				}
				acks := make([]byte, 16*tt.acks)
				if _, err := io.ReadFull(c, acks[:16]); err != nil { // both speak first
					t.Fatal(err)
				}
				if _, err := c.Write(b); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, acks[16:]); err != nil {
					results[i] = fmt.Sprintf("%v, ", err)
				}
				for n := range tt.acks {
					copy(acks[16*n+8:], "pid ")
				}
				results[i] += fmt.Sprintf("%q", acks)
				// Does it still answer?
				if b, err = hex.DecodeString(strings.ReplaceAll(good, " ", "")); err != nil {
					t.Fatal(err)
				}
				c.Write(b)
				n, err := io.ReadFull(c, acks[:16])
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Fatal(err)
				}
				results[i] += fmt.Sprintf(", then %d bytes", n)
			}
			same(t, tt.name, results[0], results[1])
		})
	}
}

// Clients of pmcd see what programs send, with an agent that is built in and has options.
// When its line changes, the agent is started again at the same port.
func TestTracePmcd(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := peer.Must(filepath.Abs("../../../../agents/builtin/trace"))(t)
	names := string(peer.Must(os.ReadFile(filepath.Join(dir, "pmns")))(t))
	line := fmt.Sprintf("trace 10 pipe binary /none/pmdatrace -d 10 -I %d", port)
	d := peer.StartT(t, path, peer.Config{
		PMNS:   "root { pmcd trace }\npmcd { version 2:0:7 control }\npmcd.control { sighup 2:0:18 }\n" + strings.ReplaceAll(names, "TRACE:", "10:"),
		Agents: []string{"pmcd 2 dso pmcd_init builtin", line},
	})
	env := append(os.Environ(), "PCP_TRACE_HOST=localhost", "PCP_TRACE_TIMEOUT=60", "PCP_TRACE_REQTIMEOUT=60", "PCP_TRACE_PORT="+strconv.Itoa(port))
	send := func() error {
		cmd := exec.Command(testutil.NeedProgram(t, "pmtrace"), "-q", "-v", "42", "answer")
		cmd.Env = env
		return cmd.Run()
	}
	shows := func(metric, want string) bool {
		o, err := d.Run(t.Context(), peer.TCP4, words("pminfo -h {host} -n {dir}/pmns -f "+metric))
		return err == nil && strings.Contains(o.Stdout, want)
	}
	const value = `inst [1 or "answer"] value 42`
	if err := send(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "the value is there", func() bool { return shows("trace.observe.value", value) })
	if !shows("trace.control", "value 60") || !shows("trace.control.port", "value "+strconv.Itoa(port)) {
		t.Error("trace.control has other values")
	}
	conf := d.Fill(peer.TCP4, "{dir}/conf")
	text := string(peer.Must(os.ReadFile(conf))(t))
	if err := os.WriteFile(conf, []byte(strings.Replace(text, line, line+" -T 30", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	d.Signal(syscall.SIGHUP)
	testutil.Eventually(t, "the agent has the new option", func() bool { return shows("trace.control.period", "value 30") })
	if shows("trace.observe.value", value) {
		t.Error("the agent was not started again")
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "the value is there again", func() bool { return shows("trace.observe.value", value) })
}
