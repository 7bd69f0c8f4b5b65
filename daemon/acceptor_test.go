package daemon

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The first bytes of a client are read in whatever pieces they arrive.
func TestFirstInput(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	words, err := pdu.Append(nil, 7, hello)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := pdu.Append(nil, 7, &pdu.DescReq{PMID: id(240, 1)})
	if err != nil {
		t.Fatal(err)
	}
	all := append(append([]byte(nil), words...), ask...)
	c := r.dial()
	want := show(c.do(&pdu.DescReq{PMID: id(240, 1)}))
	for name, pieces := range map[string][][]byte{
		"at once":            {all},
		"one after another":  {words, ask},
		"half of the first":  {all[:9], all[9:]},
		"and a piece":        {all[:len(words)+5], all[len(words)+5:]},
		"twice, then a word": {words, append(append([]byte(nil), words...), ask...)},
	} {
		t.Run(name, func(t *testing.T) {
			c := r.connect("tcp", r.tcp)
			c.recv()
			sent := r.counts.Received(pdu.TypeCreds)
			for i, b := range pieces {
				c.sendBytes(b)
				if i == 0 && len(b) >= len(words) {
					testutil.Eventually(t, "the first PDU is read", func() bool { return r.counts.Received(pdu.TypeCreds) > sent })
				}
			}
			c.Conn.(*net.TCPConn).CloseWrite()
			if got := show(c.recv()); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			c.closed()
		})
	}
	for name, b := range map[string][]byte{
		"a request before":   ask,
		"no PDU":             []byte("GET / HTTP/1.0\r\n\r\n"),
		"nothing, then gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := r.connect("tcp", r.tcp)
			c.recv()
			c.sendBytes(b)
			if b == nil {
				c.Conn.(*net.TCPConn).CloseWrite()
			}
			c.closed()
		})
	}
	testutil.Eventually(t, "they have gone", func() bool { return r.sessions.NumClients() == 1 })
}

// A socket that no longer listens is tried again now and then. Clients are accepted at
// the others.
func TestBrokenListener(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	r.cfg.Listeners.Control(func(addr net.Addr, fd uintptr) {
		if addr.Network() == "tcp" {
			if err := unix.Shutdown(int(fd), unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
		}
	})
	since := time.Now()
	testutil.Eventually(t, "tried four times", func() bool { return r.limiter.Suppressed("accept") >= 3 })
	if took := time.Since(since); took < 30*time.Millisecond {
		t.Errorf("that took %v", took)
	}
	r.dialTo("unix", r.unix, 0).do(&pdu.DescReq{PMID: id(240, 1)})
}

// onLog has f called with each line of the log, before the line is written.
func onLog(f func(entry string)) func(*Config) {
	return func(c *Config) {
		c.Log = logtest.OnLog(c.Log, func(e logtest.Entry) { f(e.Message) })
	}
}

// A client that a reload refuses while it is being accepted is told so.
func TestRefusedWhileAccepted(t *testing.T) {
	conf, err := pmcdconf.Parse("rules", strings.NewReader("t 240 pipe binary t\n[access]\ndisallow \"*\" : all;\n"), pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var d atomic.Pointer[Daemon]
	r := newHarness(t, func(c *Config) {
		c.TraceMask = diag.TraceConns | diag.TraceUnbuffered
		onLog(func(entry string) {
			if strings.Contains(entry, "New client: [0]") {
				d.Load().sessions.ApplyRules(conf.Access)
			}
		})(c)
	}, nil)
	d.Store(r.Daemon)
	r.awaitStarts()
	for _, network := range []string{"tcp", "unix"} {
		r.sessions.ApplyRules(new(access.List))
		c := r.connect(network, map[string]string{"tcp": r.tcp, "unix": r.unix}[network])
		if got := show(c.recv()); got != "0" {
			t.Errorf("%s: greeted with %s", network, got)
		}
		if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("%s: then %s", network, got)
		}
		c.ended()
		c.Conn.Close()
		testutil.Eventually(t, "it has gone", func() bool { return r.sessions.NumClients() == 0 })
	}
}

// Clients are accepted while the log takes no lines.
func TestAcceptWithoutLog(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	r := newHarness(t, func(c *Config) {
		withAccess("disallow 127.0.0.2 : all;\n")(c)
		onLog(func(entry string) {
			if entry == "access violation from host 127.0.0.2" {
				close(stuck)
				<-free
			}
		})(c)
	}, nil)
	r.awaitStarts()
	refused := r.from("127.0.0.2")
	<-stuck
	for _, addr := range []string{"127.0.0.1", "unix"} {
		if _, got := r.in(addr); got != "ok" {
			t.Errorf("%s: %s", addr, got)
		}
	}
	close(free)
	if got := show(refused.recv()); got == "0" {
		t.Error("not refused")
	}
}
