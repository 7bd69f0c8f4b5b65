package daemon

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

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
