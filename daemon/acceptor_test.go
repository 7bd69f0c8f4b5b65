package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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

// Idle clients use no goroutine, and are served when they ask for something.
func TestIdleConnections(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	r.dial().do(&pdu.DescReq{PMID: id(240, 1)}) // what is made at first use is there
	before, received := runtime.NumGoroutine(), r.counts.Received(pdu.TypeCreds)
	const many = 200
	idle := make([]*client, many)
	for i := range idle {
		network, addr := "tcp", r.tcp
		if i%2 > 0 {
			network, addr = "unix", r.unix
		}
		idle[i] = r.connect(network, addr)
		if got := show(idle[i].recv()); got != "0" {
			t.Fatal(got)
		}
		if i%4 > 1 {
			idle[i].send(hello)
		}
	}
	testutil.Eventually(t, "all CREDS are read", func() bool { return r.counts.Received(pdu.TypeCreds) == received+many/2 })
	if n := runtime.NumGoroutine() - before; n > many/10 {
		t.Errorf("%d idle clients have %d goroutines", many, n)
	}
	for i, c := range idle {
		if i%4 <= 1 {
			c.send(hello)
		}
		if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got[:3] == "PM_" {
			t.Fatalf("client %d: %s", i, got)
		}
	}
}

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

// Idle clients are disconnected when the daemon ends.
func TestIdleAtTheEnd(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	c, d := r.connect("tcp", r.tcp), r.connect("unix", r.unix)
	c.recv()
	d.recv()
	d.send(hello)
	r.stop()
	c.closed()
	d.closed()
}

// Without spare descriptors connected clients are served, and new ones are accepted
// when there are some again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	c := r.dial()
	c.do(&pdu.DescReq{PMID: id(240, 1)})

	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	next, err := syscall.Dup(0) // all below are taken
	if err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + 1), Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	syscall.Close(next)
	late := r.connect("tcp", r.tcp) // takes the last one
	r.awaitLogged(t, "AcceptNewClient: no client can be accepted: too many open files")
	if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got[:3] == "PM_" {
		t.Errorf("a client that is connected: %s", got)
	}
	restore()
	if got := show(late.recv()); got != "0" {
		t.Errorf("a client that has connected late: %s", got)
	}
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

// Idle clients that a reload refuses are told so, whether they have sent CREDS or not.
func TestIdleAreRefused(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	var idle []*client
	for i := range 8 {
		c := r.connect([]string{"tcp", "unix"}[i%2], []string{r.tcp, r.unix}[i%2])
		c.recv()
		if i%4 > 1 {
			c.send(hello)
			// With the new rules already, the answer to CREDS would be an error, too.
			testutil.Eventually(t, "its CREDS are read", func() bool { info, _ := r.sessions.Clients.Info(int32(i)); return info.Version != 0 })
		}
		idle = append(idle, c)
	}
	r.write("pmcd.conf", testAgents+"disallow \"*\" : all;\n")
	r.Reload()
	for i, c := range idle {
		if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("client %d: %s", i, got)
		}
		c.ended()
		c.Conn.Close()
	}
	testutil.Eventually(t, "they have gone", func() bool { return r.sessions.NumClients() == 0 })
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

// The session of an idle client that has disconnected ends, even if another process
// has its descriptor, as a child has for a moment.
func TestDisconnectedIsForgotten(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	for _, network := range []string{"tcp", "unix"} {
		c := r.connect(network, map[string]string{"tcp": r.tcp, "unix": r.unix}[network])
		c.recv()
		n := r.connection(0).FD()
		child, err := syscall.Dup(n)
		if err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, "it is waited for", func() bool { return watched(n) })
		c.Conn.Close()
		testutil.Eventually(t, "it has gone", func() bool { return r.sessions.NumClients() == 0 })
		if watched(n) {
			t.Errorf("%s: still waited for", network)
		}
		syscall.Close(child)
	}
}

// watched reports whether an epoll set has the descriptor fd.
func watched(fd int) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, _ := os.Readlink(l); to != "anon_inode:[eventpoll]" {
			continue
		}
		info, _ := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(l))
		if strings.Contains(string(info), fmt.Sprintf("tfd: %8d ", fd)) {
			return true
		}
	}
	return false
}
