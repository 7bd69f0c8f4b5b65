package trace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/tracepdu"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent at a port of its own, with a clock, and a client of pmcd.
type harness struct {
	*pmdatest.Harness
	*clock
	trace *trace
	addr  *net.TCPAddr
	log   testutil.Log
}

func newHarness(t *testing.T, o Options) *harness {
	t.Helper()
	testutil.CheckGoroutines(t)
	h := &harness{clock: newClock()}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Listener, o.now, o.Log = l.(*net.TCPListener), h.now, slog.New(slog.NewTextHandler(&h.log, nil))
	h.addr = l.Addr().(*net.TCPAddr)
	if h.trace, err = newTrace(Domain, o); err != nil {
		t.Fatal(err)
	}
	a, err := h.trace.open(Domain)
	if err != nil {
		t.Fatal(err)
	}
	h.Harness = pmdatest.New(t, Domain, a, h.trace.config(Domain).Metrics)
	return h
}

// A client is a connection of an application.
type client struct {
	testing.TB
	net.Conn
}

// dial connects, and returns what the agent says first.
func (h *harness) dial() (*client, int32) {
	h.Helper()
	c, err := net.DialTCP("tcp4", nil, h.addr)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testutil.Hangs))
	k := &client{h.TB, c}
	return k, k.ack()
}

// ack returns the number in the next ACK.
func (c *client) ack() int32 {
	c.Helper()
	b := make([]byte, tracepdu.ACKLen)
	if _, err := io.ReadFull(c.Conn, b); err != nil {
		c.Fatal(err)
	}
	n, err := tracepdu.ParseACK(b)
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// send writes hex bytes.
func (c *client) send(text string) {
	c.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		c.Fatal(err)
	}
}

// closed checks that the agent closes the connection without an answer.
func (c *client) closed(name string) {
	c.Helper()
	b, err := io.ReadAll(c.Conn)
	if ne, ok := err.(net.Error); len(b) > 0 || ok && ne.Timeout() {
		c.Errorf("%s: got %x, %v", name, b, err)
	}
}

const t1 = "0000001c 00007051 00001234 01030180 3fe0000000000000 7431007e "

// A client is greeted, and gets an ACK for each synchronous PDU, also if several arrive at
// once, or one in pieces.
func TestExchange(t *testing.T) {
	h := newHarness(t, Options{})
	c, version := h.dial()
	if version != 1 {
		t.Fatalf("greeted with %d", version)
	}
	c.send(t1)
	if n := c.ack(); n != 1 {
		t.Errorf("ACK %d", n)
	}
	point := "0000001c 00007051 00001234 01040280 bff0000000000000 61626300"
	silent := "0000001c 00007051 00001234 01040400 4045000000000000 63747200"
	observation := "0000001c 00007051 00001234 01040380 400c000000000000 6f627300"
	c.send(point + silent + observation + t1)
	for _, want := range []int32{2, 3, 1} {
		if n := c.ack(); n != want {
			t.Errorf("ACK %d, want %d", n, want)
		}
	}
	// A half-sent PDU does not stop another client or pmcd.
	c.send(t1[:20])
	other, _ := h.dial()
	other.send(t1)
	other.ack()
	for _, v := range []struct{ name, want string }{
		{"trace.transact.count", "t1=3"}, {"trace.transact.total_time", "t1=1.5"}, {"trace.transact.rate", ""}, {"trace.transact.ave_time", ""},
		{"trace.point.count", "abc=1"}, {"trace.observe.value", "obs=3.5"}, {"trace.counter.count", "ctr=1"}, {"trace.counter.value", "ctr=42"},
	} {
		if got := h.Values(v.name); got != v.want {
			t.Errorf("%s: got %q, want %q", v.name, got, v.want)
		}
	}
	c.send(t1[20:])
	if n := c.ack(); n != 1 {
		t.Errorf("ACK %d", n)
	}
	h.advance(12 * time.Second)
	for _, v := range []struct{ name, want string }{
		{"trace.transact.count", "t1=4"}, {"trace.transact.rate", "t1=0.06666667"}, {"trace.transact.ave_time", "t1=0.5"},
		{"trace.transact.min_time", "t1=0.5"}, {"trace.transact.max_time", "t1=0.5"}, {"trace.point.rate", "abc=0.016666668"},
	} {
		if got := h.Values(v.name); got != v.want {
			t.Errorf("%s: got %q, want %q", v.name, got, v.want)
		}
	}
}

// reset lets the next line be logged.
func (l *limiter) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.lines, l.left = time.Time{}, 0, 0
}

// What no application sends ends the connection. PDUs before it count.
func TestProtocolErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ name, bytes, log string }{
		{"length 15", "0000000f 00007051 00001234 00000000", "illegal PDU length 15"},
		{"length 273", "00000111 00007051 00001234 00000000", "illegal PDU length 273"},
		{"negative length", "ffffffff 00007051 00001234 00000000", "illegal PDU length -1"},
		{"an ACK", "00000010 00007050 00001234 00000001", "unexpected PDU of type 0x7050"},
		{"unknown type", "00000010 00007052 00001234 00000001", "unexpected PDU of type 0x7052"},
		{"version", strings.Replace(t1, "01030180", "02030180", 1), "version 2"},
		{"tag type", strings.Replace(t1, "01030180", "01030580", 1), "unknown tag type 5"},
		{"no tag", strings.Replace(t1, "01030180", "01000180", 1), "tag of 0 bytes"},
		{"long tag", strings.Replace(t1, "01030180", "017e0180", 1), "tag of 126 bytes"},
		{"infinite time", strings.Replace(t1, "3fe0000000000000", "7ff0000000000000", 1), "a transaction of +Inf seconds"},
		{"too long", strings.Replace(t1, "3fe0000000000000", "7fe1ccf385ebc8a0", 1), "a transaction of 1e+308 seconds"},
		{"far too short", strings.Replace(t1, "3fe0000000000000", "ffe1ccf385ebc8a0", 1), "a transaction of -1e+308 seconds"},
		{"no time", strings.Replace(t1, "3fe0000000000000", "7ff8000000000000", 1), "a transaction of NaN seconds"},
	} {
		h.trace.server.warn.reset()
		c, _ := h.dial()
		c.send(strings.Replace(t1, "80", "00", 1) + tt.bytes)
		c.closed(tt.name)
		testutil.Eventually(t, tt.name+" is in the log: "+tt.log, func() bool { return strings.Contains(h.log.String(), tt.log) })
	}
	if got := h.Values("trace.transact.count"); got != "t1=13" {
		t.Errorf("got %q", got)
	}
}

// The total time of transactions is a counter: one that seems to have ended before its begin, because
// the clock was set back, takes no time. Other values may be negative.
func TestClockSetBack(t *testing.T) {
	h := newHarness(t, Options{})
	c, _ := h.dial()
	back := strings.Replace(t1, "3fe0000000000000", "bff0000000000000", 1)
	for _, pdu := range []string{t1, back, strings.Replace(back, "01030180", "01030380", 1)} {
		c.send(pdu)
		c.ack()
	}
	for name, want := range map[string]string{
		"trace.transact.count": "t1=2", "trace.transact.total_time": "t1=0.5", "trace.observe.value": "t1=-1",
	} {
		if got := h.Values(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Clients over the limit, and those that the rules do not allow, get a reason.
func TestRefused(t *testing.T) {
	h := newHarness(t, Options{max: 1})
	first, _ := h.dial()
	if c, n := h.dial(); n != tracepdu.ErrConnLimit {
		t.Errorf("over the limit: got %d", n)
	} else {
		c.closed("over the limit")
	}
	first.Close()
	testutil.Eventually(t, "there is room again", func() bool {
		_, n := h.dial()
		return n == 1
	})
	for rule, want := range map[string]int32{"disallow:127.0.0.1": tracepdu.ErrPermission, "allow:127.0.0.1:0": 1} {
		h := newHarness(t, Options{Access: []string{rule}})
		if _, n := h.dial(); n != want {
			t.Errorf("%s: got %d, want %d", rule, n, want)
		}
		if want < 0 && !strings.Contains(h.log.String(), "access denied") {
			t.Errorf("log: %s", h.log.String())
		}
	}
	h = newHarness(t, Options{Access: []string{"allow:127.0.0.1:1"}})
	c, _ := h.dial()
	if _, n := h.dial(); n != tracepdu.ErrConnLimit {
		t.Errorf("second connection: got %d", n)
	}
	c.Close()
	testutil.Eventually(t, "the first one does not count any more", func() bool {
		_, n := h.dial()
		return n == 1
	})
}

// When descriptors run out, clients are refused.
func TestNoDescriptors(t *testing.T) {
	h := newHarness(t, Options{})
	h.trace.server.mu.Lock()
	h.trace.server.files = 0
	h.trace.server.mu.Unlock()
	if _, n := h.dial(); n != tracepdu.ErrConnLimit {
		t.Errorf("got %d", n)
	}
}

// A client that reads no ACKs, and one that floods, do not stop others.
func TestFlood(t *testing.T) {
	h := newHarness(t, Options{})
	bad, _ := h.dial()
	b, err := hex.DecodeString(strings.ReplaceAll(t1, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	flood := bytes.Repeat(b, 1000)
	done := make(chan bool)
	go func() {
		defer close(done)
		for { // until the test closes the connection
			if _, err := bad.Write(flood); err != nil {
				return
			}
		}
	}()
	testutil.Eventually(t, "the flood is counted", func() bool { return h.Values("trace.transact.count") != "" })
	good, _ := h.dial()
	good.send(strings.Replace(t1, "01030180", "01030280", 1))
	if n := good.ack(); n != 2 {
		t.Errorf("ACK %d", n)
	}
	bad.Close()
	<-done
}

// The agent closes its port and all connections, and the port can be used again at once.
func TestClose(t *testing.T) {
	h := newHarness(t, Options{})
	c, _ := h.dial()
	half, _ := h.dial()
	half.send(t1[:20])
	h.Close()
	c.closed("idle client")
	half.closed("client with a half-sent PDU")
	a, err := Open(Domain, Options{Port: h.addr.Port})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{Port: h.addr.Port})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Open(Domain, Options{Port: h.addr.Port}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("port in use: %v", err)
	}
}

// Only clients of the same host may connect, at whatever address of it.
func TestOtherAddress(t *testing.T) {
	h := newHarness(t, Options{})
	for _, addr := range []string{"127.0.0.1", "127.0.1.1", "127.1.2.3"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
		c, err := d.Dial("tcp4", h.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(testutil.Hangs))
		if n := (&client{t, c}).ack(); n != 1 {
			t.Errorf("%s: got %d", addr, n)
		}
		c.Close()
	}
}

// Stores are those of pmdatrace: one metric forgets all values, and one sets debug options.
func TestStore(t *testing.T) {
	h := newHarness(t, Options{Debug: []string{"appl1"}})
	c, _ := h.dial()
	c.send(t1)
	c.ack()
	one := pdu.Value{Inst: pdu.NoInst, Word: 1}
	text := func(s string) pdu.Value {
		return pdu.Value{Inst: pdu.NoInst, Type: pdu.MetricString, Block: append([]byte(s), 0)}
	}
	if got := h.Values("trace.control.debug"); got != "appl1" {
		t.Errorf("debug: %q", got)
	}
	for _, tt := range []struct {
		name string
		v    pdu.Value
		want error
	}{
		{"trace.control.debug", text("nosuch"), pdu.ErrnoConv},
		{"trace.control.debug", one, pdu.ErrnoBadStore},
		{"trace.control.debug", text("appl0,PDU"), nil},
		{"trace.control.port", one, pdu.ErrnoPMID},
		{"trace.transact.count", one, pdu.ErrnoPMID},
		{"trace.control.reset", one, nil},
	} {
		want := ""
		if tt.want != nil {
			want = tt.want.Error()
		}
		if got := h.Store(tt.name, tt.v); got != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
	if got := h.Values("trace.control.debug"); got != "appl0,pdu" {
		t.Errorf("debug: %q", got)
	}
	if got := h.Values("trace.transact.count"); got != "" {
		t.Errorf("after a reset: %q", got)
	}
	c.send(t1)
	c.ack()
	if got := h.Values("trace.transact.count"); got != "t1=1" {
		t.Errorf("again: %q", got)
	}
	if log := h.log.String(); !strings.Contains(log, `tag \"t1\"`) {
		t.Errorf("with appl0 the log is %q", log)
	}
}

// Tags that there is no memory for are left out, and clients get their ACKs.
func TestTooManyTags(t *testing.T) {
	h := newHarness(t, Options{memory: 1000})
	c, _ := h.dial()
	for _, tag := range []string{"7431", "7432", "7433", "7431"} {
		c.send(strings.Replace(t1, "7431", tag, 1))
		if n := c.ack(); n != 1 {
			t.Errorf("ACK %d", n)
		}
	}
	if got := h.Values("trace.transact.count"); got != "t1=2" {
		t.Errorf("got %q", got)
	}
	if n := strings.Count(h.log.String(), fmt.Sprintf("owner=\"user %d\"", os.Geteuid())); n != 1 {
		t.Errorf("log: %s", h.log.String())
	}
}

func TestDescribed(t *testing.T) {
	h := newHarness(t, Options{Period: 30 * time.Second, Buckets: 4, ObserveUnits: pdu.Byte})
	h.CheckNamesAndHelp("root", h.Agent)
	for name, want := range map[string]string{
		"trace.control.period": "30", "trace.control.interval": "7", "trace.control.buckets": "4", "trace.control.reset": "1",
		"trace.transact.count": "",
	} {
		if got := h.Values(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if u := h.Metrics["trace.observe.value"].Units; u != pdu.Byte {
		t.Errorf("units: %v", u)
	}
	c, _ := h.dial()
	c.send(t1)
	c.ack()
	h.CheckAgent()
}
