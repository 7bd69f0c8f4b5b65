package daemon

import (
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// children returns the processes of the logins that are under way.
func (h *loginHarness) children() []int {
	n, last := h.helper()
	if n == 0 {
		return nil
	}
	return testutil.Children(last.PID())
}

// begun returns a client that has begun to log in and says nothing more.
func (h *loginHarness) begun(network string) *client {
	h.t.Helper()
	c, _ := h.greeted(network)
	c.creds(pdu.FeatureAuth)
	c.mechanisms()
	return c
}

// A client that disconnects in the middle of a login leaves nothing.
func TestPeerLoginDisconnects(t *testing.T) {
	h := newLoginHarness(t, nil)
	for _, then := range []string{"", "LOGIN\x00", "LOGIN\x00root"} {
		c := h.begun("tcp")
		if then != "" {
			c.respond(then)
			c.want(then, map[bool]string{true: "challenge Username:", false: "challenge Password:"}[then == "LOGIN\x00"])
		}
		if n := len(h.children()); n != 1 {
			t.Errorf("%q: %d processes, want 1", then, n)
		}
		c.Conn.Close()
		testutil.Eventually(t, "the client and its process have gone", func() bool {
			return h.sessions.NumClients() == 0 && len(h.children()) == 0
		})
	}
	// Half a PDU is no difference.
	c := h.begun("tcp")
	c.sendBytes([]byte{0, 0, 0})
	c.Conn.Close()
	testutil.Eventually(t, "the client and its process have gone", func() bool {
		return h.sessions.NumClients() == 0 && len(h.children()) == 0
	})
}

// A client that waits for its login to begin can disconnect.
func TestPeerLoginWaits(t *testing.T) {
	const maxLogins = 64
	h := newLoginHarness(t, func(c *Config) { c.hooks.loginTime, c.hooks.saslTimeout = time.Hour, time.Hour })
	h.begun("tcp").Conn.Close()
	testutil.Eventually(t, "it has gone", func() bool { return h.sessions.NumClients() == 0 && len(h.children()) == 0 })
	// The helper stops, so no login begins and none ends.
	_, helper := h.helper()
	if err := syscall.Kill(helper.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(helper.PID(), syscall.SIGCONT)
	var all []*client
	for i := range maxLogins + 6 {
		c := h.connect("tcp", h.tcp)
		c.recv()
		if i%2 == 0 {
			c.creds(pdu.FeatureAuth)
		} else {
			c.creds(secureFlags | pdu.FeatureAuth)
			c.recv()
			c = c.secured()
			c.send(&pdu.DescReq{PMID: id(240, 1)}) // too early: it is read and kept
		}
		all = append(all, c)
	}
	testutil.Eventually(t, "all are connected", func() bool { return h.sessions.NumClients() == len(all) })
	for _, c := range all {
		c.Conn.Close()
	}
	// Those whose login has begun cannot be told from others, and stay.
	testutil.Eventually(t, "those that wait have gone", func() bool { return h.sessions.NumClients() <= maxLogins })
}

// Many logins at once from one address, whose clients do not go on, leave room for a login
// from another address, and for the requests of others.
func TestPeerLoginFlood(t *testing.T) {
	h := newLoginHarness(t, nil)
	other, _ := h.greeted("unix")
	other.creds(0)
	other.served("before", true)
	var flood []*client
	for range 200 {
		c := h.connect("tcp", h.tcp)
		c.recv()
		c.creds(pdu.FeatureAuth)
		flood = append(flood, c)
	}
	testutil.Eventually(t, "logins are under way", func() bool { return len(h.children()) > 0 })
	for range 20 {
		other.served("meanwhile", true)
	}
	victim, _ := h.greeted("tcp")
	victim.plain(0, "root", "root")
	victim.served("logged in", true)
	if info, _ := h.sessions.Clients.Info(201); info.UID != 0 {
		t.Errorf("%+v", info)
	}
	// 64 can be under way, and some processes may not have ended yet.
	if n := len(h.children()); n == 0 || n >= 128 {
		t.Errorf("%d processes of logins", n)
	}
	if n := h.sessions.NumClients(); n != 202 {
		t.Errorf("%d clients, want 202", n)
	}
	for _, c := range flood {
		c.Conn.Close()
	}
	testutil.Eventually(t, "they have gone", func() bool { return h.sessions.NumClients() == 2 && len(h.children()) == 0 })
	other.served("afterwards", true)
}

// A helper that hangs fails the login that notices it, and is replaced for the next one. It has
// its own time, also if a client has less.
func TestPeerLoginHelperStopped(t *testing.T) {
	h := newLoginHarness(t, func(c *Config) { c.hooks.loginTime, c.hooks.saslTimeout = 4*time.Second, 5*time.Second })
	h.begun("tcp").Conn.Close()
	_, helper := h.helper()
	if err := syscall.Kill(helper.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c, _ := h.greeted("tcp")
	c.creds(pdu.FeatureAuth)
	c.want("with a helper that is stopped", "-21345")
	h.awaitLogged(t, "the SASL helper does not answer; the next login starts another one")
	c.plain(0, "root", "root")
	c.served("after the next login", true)
	testutil.WaitEnded(t, helper.PID())
}

// A reload has the next login use the configuration of SASL as it is then. A login that is
// under way goes on.
func TestPeerLoginReload(t *testing.T) {
	h := newLoginHarness(t, nil)
	before := h.begun("tcp")
	h.write("sasl2/pmcd.conf", "mech_list: plain\nsasldb_path: "+h.dir+"/sasldb2\n")
	h.reloaded()
	c, _ := h.greeted("tcp")
	c.creds(pdu.FeatureAuth)
	if got := c.mechanisms(); got != "PLAIN" {
		t.Errorf("mechanisms %q after the reload", got)
	}
	before.respond("LOGIN\x00root")
	before.want("a login that began before", "challenge Password:")
	before.respond("root")
	before.served("a login that began before", true)
	// A configuration that the library rejects is an error of each login, and of nothing else.
	h.write("sasl2/pmcd.conf", "nonsense\n")
	h.reloaded()
	c, _ = h.greeted("tcp")
	c.creds(pdu.FeatureAuth)
	c.want("a configuration that is rejected", "-22")
	c.served("afterwards", true)
	h.write("sasl2/pmcd.conf", saslConf+"sasldb_path: "+h.dir+"/sasldb2\n")
	h.reloaded()
	c.plain(0, "root", "root")
	c.served("the configuration is good again", true)
}

// The end of pmcd ends logins that are under way, and leaves no process.
func TestPeerLoginEnd(t *testing.T) {
	h := newLoginHarness(t, nil)
	for range 3 {
		h.begun("tcp")
	}
	h.begun("unix").respond("LOGIN\x00root")
	children := h.children()
	if len(children) != 4 {
		t.Errorf("%d logins are under way", len(children))
	}
	h.stop()
	_, helper := h.helper()
	if testutil.Running(helper.PID()) {
		t.Error("the helper runs")
	}
	for _, pid := range children {
		testutil.WaitEnded(t, pid)
	}
}
