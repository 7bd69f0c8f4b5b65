package daemon

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// A loginHarness is a Daemon with a real SASL helper and a database with the users root,
// nobody, and carol, who has no account of the system. The password is their name.
type loginHarness struct {
	*harness
	agent   *agentsettest.Tester // of domain 240
	clients int                  // of the port

	mu      sync.Mutex // guards helpers
	helpers []*child.Process
}

const saslConf = "mech_list: plain login scram-sha-256\n"

// newLoginHarness starts a Daemon. TLS is on.
func newLoginHarness(t *testing.T, change func(*Config)) *loginHarness {
	t.Helper()
	testutil.NeedPeer(t, "saslpasswd2")
	if !saslhelper.Supported {
		testutil.Missing(t, saslhelper.ErrUnsupported)
	}
	h := &loginHarness{agent: &agentsettest.Tester{Domain: 240}}
	h.harness = newHarness(t, func(c *Config) {
		dir := filepath.Dir(c.Files.Conf)
		database := filepath.Join(dir, "sasldb2")
		for _, user := range []string{"root", "nobody", "carol"} {
			setPassword(t, database, user, user)
		}
		c.Files.TLS = filepath.Join(dir, "tls.conf")
		testutil.WriteCertificate(t, dir, "server", time.Now().AddDate(1, 0, 0))
		for name, text := range map[string]string{
			"/sasl2/pmcd.conf": saslConf + "sasldb_path: " + database + "\n",
			"/tls.conf":        tlsText(dir, "server"),
		} {
			os.MkdirAll(filepath.Dir(dir+name), 0o755)
			if err := os.WriteFile(dir+name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		opt := saslhelper.Options{Env: []string{"SASL_CONF_PATH=" + dir + "/sasl2"}}
		c.Security.SASLHelper = func(sock *os.File, probe bool) (*child.Process, error) {
			p, err := saslhelper.Start(opt, sock, probe)
			if err == nil && !probe {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.helpers = append(h.helpers, p)
			}
			return p, err
		}
		if change != nil {
			change(c)
		}
	}, map[int]func(wire.Conn){240: serveAgent(h.agent)})
	h.awaitStarts()
	return h
}

// setPassword adds a user to a database, or changes the password.
func setPassword(t *testing.T, database, user, password string) {
	t.Helper()
	cmd := exec.Command("saslpasswd2", "-c", "-p", "-f", database, user)
	cmd.Stdin = strings.NewReader(password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("saslpasswd2: %v\n%s", err, out)
	}
}

// helper returns the number of helpers that were started, and the last one.
func (h *loginHarness) helper() (n int, last *child.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n = len(h.helpers); n > 0 {
		last = h.helpers[n-1]
	}
	return n, last
}

// greeted connects, and returns the client and the features that it was offered. Each client
// of the port has an address of its own.
func (h *loginHarness) greeted(network string) (*client, pdu.Features) {
	h.t.Helper()
	var c *client
	if network == "unix" {
		c = h.connect(network, h.unix)
	} else {
		h.clients++
		c = h.wrap(pdutest.Dial("tcp", h.tcp, fmt.Sprint("127.0.1.", h.clients)))
	}
	features, err := c.Greeting()
	if err != nil {
		h.t.Fatal(err)
	}
	return c, features
}

// creds sends CREDS.
func (c *client) creds(flags pdu.Features) {
	c.t.Helper()
	c.send(pdutest.Creds(flags))
}

// mechanisms receives the list of them.
func (c *client) mechanisms() string {
	c.t.Helper()
	m := c.recv()
	a, ok := m.(*pdu.Attr)
	if !ok {
		c.t.Fatalf("got %s, want the mechanisms", show(m))
	}
	return string(a.Value)
}

// respond sends a message of a login.
func (c *client) respond(text string) {
	c.t.Helper()
	c.send(&pdu.Attr{Value: []byte(text)})
}

// plain logs in by PLAIN. A login that succeeds has no reply.
func (c *client) plain(flags pdu.Features, user, password string) {
	c.t.Helper()
	c.creds(flags | pdu.FeatureAuth)
	c.mechanisms()
	c.respond("PLAIN\x00\x00" + user + "\x00" + password)
}

// secured returns the same client in TLS, which it has asked for.
func (c *client) secured() *client {
	c.t.Helper()
	conn := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	secured := pdutest.New(conn)
	secured.From = c.From
	return &client{c.t, secured}
}

// want fails the test unless the next PDU is as show returns it.
func (c *client) want(what, want string) {
	c.t.Helper()
	if got := showReply(c.recv()); got != want {
		c.t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// showReply is show with the numbers of SASL's errors, and the type of other PDUs.
func showReply(m pdu.Message) string {
	switch m := m.(type) {
	case *pdu.Error:
		return m.Code.Name()
	case *pdu.Attr:
		return "challenge " + string(m.Value)
	}
	return m.Type().String()
}

// served fails the test unless requests are served, or are denied.
func (c *client) served(what string, yes bool) {
	c.t.Helper()
	want := map[bool]string{true: pdu.TypeDesc.String(), false: "PM_ERR_PERMISSION"}[yes]
	c.send(&pdu.DescReq{PMID: id(240, 1)})
	c.want(what, want)
}
