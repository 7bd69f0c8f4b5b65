package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

const testAgents = "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\n[access]\n"

func withAccess(rules string) func(*Config) {
	return func(c *Config) { os.WriteFile(c.Files.Conf, []byte(testAgents+rules), 0o666) }
}

// from connects from one of the addresses 127.*, or to the Unix socket.
func (r *harness) from(addr string) *client {
	r.t.Helper()
	if addr == "unix" {
		return r.connect("unix", r.unix)
	}
	return r.wrap(pdutest.Dial("tcp", r.tcp, addr))
}

var hello = pdutest.Creds(0)

// in connects and greets, and says what came of that: "ok", or the error.
func (r *harness) in(addr string) (*client, string) {
	r.t.Helper()
	c := r.from(addr)
	// A refusal is read even if there is something that pmcd has not read.
	c.send(hello, &pdu.Profile{}, &pdu.DescReq{PMID: id(240, 1)})
	if g := c.recv().(*pdu.Error); g.Code != 0 {
		if g.Info != 0 {
			r.t.Errorf("a refusal with info %#x", g.Info)
		}
		c.ended()
		return c, pdu.FromGreetingCode(g.Code).Name()
	}
	switch m := c.recv().(type) {
	case *pdu.Desc:
		return c, "ok"
	default:
		return c, show(m)
	}
}

// ended fails the test unless the connection comes to its orderly end.
func (c *client) ended() {
	c.t.Helper()
	if b, err := c.Receive(); !errors.Is(err, io.EOF) {
		c.t.Errorf("got %x and %v, want the end", b, err)
	}
}

// Limits hold from the first connection after the start. A refused client can
// read why, and can connect after the end of another.
func TestConnectionLimits(t *testing.T) {
	r := newHarness(t, withAccess("allow 127.0.0.2, 127.0.0.3 : all, maximum 2 connections;\n"), nil)
	r.awaitStarts()
	first, got := r.in("127.0.0.2")
	if got != "ok" {
		t.Fatal(got)
	}
	for _, tt := range []struct{ addr, want string }{
		{"127.0.0.2", "ok"}, {"127.0.0.2", "PM_ERR_CONNLIMIT"}, {"127.0.0.2", "PM_ERR_CONNLIMIT"},
		{"127.0.0.3", "ok"}, {"127.0.0.4", "ok"}, {"unix", "ok"},
	} {
		if _, got := r.in(tt.addr); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.addr, got, tt.want)
		}
	}
	first.Conn.Close()
	testutil.Eventually(t, "there is room", func() bool { _, got := r.in("127.0.0.2"); return got == "ok" })

	r.sessions.LogRules()
	if want := "    2     2 127.0.0.2 "; !r.logged(want) {
		t.Errorf("the table does not say %q", want)
	}
}

// Clients that are refused and do not disconnect take no descriptors from others.
func TestManyAreRefused(t *testing.T) {
	r := newHarness(t, withAccess("disallow 127.0.0.2 : all;\n"), nil)
	r.awaitStarts()
	before := testutil.CountFDs()
	const many = conn.MaxLingering + 100
	for range many {
		c := r.from("127.0.0.2")
		if g := c.recv().(*pdu.Error); pdu.FromGreetingCode(g.Code) != pdu.ErrnoPermission {
			t.Fatalf("got %v", g)
		}
	}
	if n := testutil.CountFDs() - before - many; n > conn.MaxLingering+10 { // some are about to be closed
		t.Errorf("pmcd has %d connections to those that it has refused", n)
	}
	if _, got := r.in("127.0.0.1"); got != "ok" {
		t.Error(got)
	}
}

// The end of the daemon does not wait for clients that are refused, and they can
// read why after it.
func TestRefusedAtTheEnd(t *testing.T) {
	var d atomic.Pointer[Daemon]
	waited := true
	r := newHarness(t, func(c *Config) {
		onLog(func(entry string) {
			if entry == "pmcd Shutdown" {
				waited = d.Load().stopping.Err() != nil
			}
		})(c)
	}, nil)
	d.Store(r.Daemon)
	r.awaitStarts()
	var clients []*client
	connect := func(greeted bool) {
		for i := range 12 {
			c := r.from([]string{"127.0.0.1", "unix"}[i%2])
			clients = append(clients, c)
			if greeted {
				c.recv()
			}
			switch i % 3 {
			case 1:
				c.send(hello)
			case 2:
				if c.send(hello, &pdu.DescReq{PMID: id(240, 1)}); greeted {
					c.recv()
				}
			}
		}
	}
	connect(true)
	r.write("pmcd.conf", testAgents+"disallow \"*\" : all;\n")
	r.Reload()
	testutil.Eventually(t, "the rules are in force", func() bool { return r.acceptor.Load().Stats().Lingering > 0 })
	connect(false)
	testutil.Eventually(t, "all are told", func() bool { return r.acceptor.Load().Stats().Lingering == len(clients) })
	for i, c := range clients {
		if i%2 > 0 {
			c.send(hello) // not read
		}
	}
	r.stop()
	if waited {
		t.Error("the end has waited for them")
	}
	for i, c := range clients {
		if i%4 > 1 {
			c.Conn.Write([]byte("hello?")) // resets the connection
		}
		e, ok := c.recv().(*pdu.Error)
		if !ok || e.Code != pdu.ErrnoPermission && pdu.FromGreetingCode(e.Code) != pdu.ErrnoPermission {
			t.Errorf("client %d: got %v", i, e)
		}
	}
}

// A limit of a rule for users is noticed at CREDS, and the connection goes on
// without any rights.
func TestUserLimit(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	r := newHarness(t, withAccess("allow user "+me.Username+" : all, maximum 1 connections;\n"), nil)
	r.awaitStarts()
	c, got := r.in("unix")
	if got != "ok" {
		t.Fatal(got)
	}
	d, got := r.in("unix")
	if got != "PM_ERR_CONNLIMIT" {
		t.Errorf("the second: got %s", got)
	}
	for range 2 { // to the PROFILE and the DESC_REQ
		if got := show(d.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("then: got %s", got)
		}
	}
	c.Conn.Close()
	testutil.Eventually(t, "CREDS again succeeds", func() bool {
		d.send(hello)
		switch m := d.do(&pdu.DescReq{PMID: id(240, 1)}).(type) {
		case *pdu.Desc:
			return true
		default:
			if got := show(m); got != "PM_ERR_CONNLIMIT" {
				t.Fatalf("got %s", got)
			}
			d.recv()
			return false
		}
	})
}

// A reload ends those that its rules refuse, and only those, with an ERROR
// between two replies; the request in progress is answered as if nothing had
// happened. A client that stays has the rights of the new rules.
func TestReloadRefuses(t *testing.T) {
	a := &agentsettest.Tester{Domain: 240, Enter: make(chan struct{}), Leave: make(chan struct{})}
	r := newHarness(t, withAccess("allow * : all;\n"), map[int]func(wire.Conn){240: serveAgent(a)})
	r.awaitStarts()
	in := func(addr string) *client {
		t.Helper()
		c, got := r.in(addr)
		if got != "ok" {
			t.Fatalf("%s: %s", addr, got)
		}
		return c
	}
	idle, busy, piped, half, stays := in("127.0.0.2"), in("127.0.0.2"), in("127.0.0.2"), in("127.0.0.2"), in("127.0.0.3")
	early, silent := r.from("127.0.0.2"), r.from("unix") // they have said nothing, or only CREDS
	for _, c := range []*client{early, silent} {
		if got := show(c.recv()); got != "0" {
			t.Fatal(got)
		}
	}
	before := r.counts.Received(pdu.TypeCreds)
	silent.send(hello)

	busy.send(&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 9)}})
	<-a.Enter
	busy.send(&pdu.DescReq{PMID: id(241, 1)}) // the reply is not read
	// Of these the agent has the first, or will have it next.
	piped.send(&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, &pdu.DescReq{PMID: id(241, 1)})
	b, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(240, 1)})
	half.sendBytes(b[:13])
	testutil.Eventually(t, "requests have been read", func() bool {
		return r.counts.Received(pdu.TypeFetch) >= 2 && r.counts.Received(pdu.TypeCreds) > before
	})

	r.write("pmcd.conf", testAgents+"disallow 127.0.0.2, \"unix:\" : all; disallow 127.0.0.3 : store;\n")
	r.reloaded()
	for name, c := range map[string]*client{"idle": idle, "half a PDU": half, "before CREDS": early, "after CREDS": silent} {
		if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("%s: got %s", name, got)
		}
		c.ended()
	}
	close(a.Leave)
	for name, c := range map[string]*client{"busy": busy, "pipelined": piped} {
		if got := show(c.recv()); got != "240.0.9=240" && got != "240.0.1=240" {
			t.Errorf("%s: got %s, want its reply", name, got)
		}
		if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
			t.Errorf("%s: then got %s", name, got)
		}
		c.ended()
	}
	if got := show(stays.do(&pdu.DescReq{PMID: id(241, 1)})); strings.HasPrefix(got, "PM_ERR") {
		t.Errorf("a client that stays: %s", got)
	}
	if got := show(stays.do(&pdu.Result{})); got != "PM_ERR_PERMISSION" {
		t.Errorf("a store of a client that stays: %s", got)
	}
	if _, got := r.in("127.0.0.2"); got != "PM_ERR_PERMISSION" {
		t.Errorf("a new one: %s", got)
	}
	testutil.Eventually(t, "they have gone", func() bool { return r.sessions.NumClients() == 1 })

	r.logs.TakeAll()
	r.sessions.LogClients("title")
	if !r.logged(fmt.Sprintf("%-40s  %7d  store\n", "127.0.0.3", 2)) {
		t.Errorf("the table of clients: %q", r.logs.All()[0].Message)
	}
}

// A reload counts from zero, in the order of the numbers of clients; a file
// that is rejected or unchanged decides nothing.
func TestReloadRecounts(t *testing.T) {
	r := newHarness(t, withAccess("allow * : all;\n"), nil)
	r.awaitStarts()
	var all []*client
	for i := range 5 {
		c, got := r.in("127.0.0.2")
		if got != "ok" {
			t.Fatal(got)
		}
		if all = append(all, c); i == 2 { // its number goes to the fourth
			all[0].Conn.Close()
			testutil.Eventually(t, "the first has gone", func() bool { return r.sessions.NumClients() == 2 })
			all = all[1:]
		}
	}
	all[0], all[1], all[2] = all[2], all[0], all[1] // now by number

	const two = "allow 127.0.0.2 : all, maximum 2 connections;\n"
	r.write("pmcd.conf", testAgents+two+"disallow * all;\n")
	r.reloaded()
	for i, c := range all {
		if got := show(c.do(&pdu.DescReq{PMID: id(241, 1)})); strings.HasPrefix(got, "PM_ERR") {
			t.Errorf("after a rejected file, client %d: %s", i, got)
		}
	}
	r.write("pmcd.conf", testAgents+two)
	for range 2 { // the second time nothing has changed
		r.reloaded()
		for i, c := range all[:2] {
			if got := show(c.do(&pdu.DescReq{PMID: id(241, 1)})); strings.HasPrefix(got, "PM_ERR") {
				t.Errorf("client %d: %s", i, got)
			}
		}
	}
	for i, c := range all[2:] {
		if got := show(c.recv()); got != "PM_ERR_CONNLIMIT" {
			t.Errorf("client %d: %s", i+2, got)
		}
		c.ended()
	}
	if _, got := r.in("127.0.0.2"); got != "PM_ERR_CONNLIMIT" {
		t.Errorf("a new one: %s", got)
	}
}

// When rules for users come, TCP clients go; when they are removed, TCP clients
// are served again, those included that have said nothing so far. With -S
// nothing of that changes.
func TestRulesForUsersRemoved(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, always := range []bool{false, true} {
		t.Run(fmt.Sprintf("-S %v", always), func(t *testing.T) {
			r := newHarness(t, func(c *Config) {
				c.Security.CredsRequired = always
				withAccess("allow * : all;\n")(c)
			}, nil)
			r.awaitStarts()
			checkTCP := func(when string, required bool) {
				t.Helper()
				c := r.from("127.0.0.2")
				if g := c.recv().(*pdu.Error); g.Info&uint32(pdu.FeatureCredsReqd) != 0 != required {
					t.Errorf("%s: greeting %#x", when, g.Info)
				}
				c.send(hello)
				if got := show(c.do(&pdu.DescReq{PMID: id(241, 1)})); (got == "PM_ERR_PERMISSION") != required {
					t.Errorf("%s: %s", when, got)
				}
				c.Conn.Close()
				var st pmcd.Status
				if (host{r.Daemon}).Status(&st); st.Features.CredsRequired != required {
					t.Errorf("%s: pmcd.feature.creds_required is %v", when, st.Features.CredsRequired)
				}
			}
			checkTCP("at first", always)
			unix, _ := r.in("unix")
			tcp, got := r.in("127.0.0.2")
			if (got == "ok") == always {
				t.Errorf("TCP: %s", got)
			}
			r.write("pmcd.conf", testAgents+"allow user "+me.Username+" : all;\n")
			r.reloaded()
			if !always {
				if got := show(tcp.recv()); got != "PM_ERR_PERMISSION" {
					t.Errorf("TCP: %s", got)
				}
				tcp.ended()
			}
			checkTCP("with rules for users", true)
			early := r.from("127.0.0.2")
			early.recv() // the greeting

			r.write("pmcd.conf", testAgents+"allow * : all;\n")
			r.reloaded()
			if got := show(unix.do(&pdu.DescReq{PMID: id(241, 1)})); strings.HasPrefix(got, "PM_ERR") {
				t.Errorf("Unix: %s", got)
			}
			checkTCP("without them", always)
			early.send(hello)
			got = show(early.do(&pdu.DescReq{PMID: id(241, 1)}))
			if (got == "PM_ERR_PERMISSION") != always {
				t.Errorf("a client that waited: %s", got)
			}
		})
	}
}

// Each host that is refused is in the log once, until the next reload.
func TestViolationsAreLoggedOnce(t *testing.T) {
	r := newHarness(t, withAccess("disallow 127.0.0.2, \"unix:\" : all;\n"), nil)
	r.awaitStarts()
	count := func() (n int) {
		for _, e := range r.logs.TakeAll() {
			for _, addr := range []string{"127.0.0.2", r.unix} {
				if e.Message == "access violation from host "+addr {
					n++
				}
			}
			if strings.HasPrefix(e.Message, "endclient client[0]: (fd ") && strings.HasSuffix(e.Message, " (-12387)") {
				n += 100
			}
		}
		return n
	}
	for range 2 {
		for range 3 {
			for _, addr := range []string{"127.0.0.2", "unix"} {
				c, got := r.in(addr)
				if got != "PM_ERR_PERMISSION" {
					t.Errorf("%s: got %s", addr, got)
				}
				c.Conn.Close()
				testutil.Eventually(t, "it has gone", func() bool { return r.sessions.NumClients() == 0 })
			}
		}
		if n := count(); n != 202 {
			t.Errorf("%d lines, want two of each kind", n)
		}
		r.reloaded()
	}
}
