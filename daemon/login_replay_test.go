package daemon

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// exchange sends a capture and receives others; they must be the same.
func (c *client) exchange(request string, replies ...string) {
	c.t.Helper()
	c.sendBytes(capture(c.t, request))
	c.expect(request, replies...)
}

// expect receives captures after a request.
func (c *client) expect(request string, replies ...string) {
	c.t.Helper()
	for _, name := range replies {
		got, err := c.Receive()
		if want := capture(c.t, name); err != nil || !bytes.Equal(got, want) {
			c.t.Errorf("%s:\n got %x, %v\nwant %x (%s)", request, got, err, want, name)
		}
	}
}

// The greetings of a pmcd with SASL, with TLS or without, are those of C pmcd.
func TestPeerLoginGreetings(t *testing.T) {
	for _, tt := range []struct {
		capture   string
		tls, q, s bool
	}{
		{"s2c_error_greeting_ok", false, false, false},
		{"s2c_error_greeting_creds_reqd", false, false, true},
		{"s2c_error_greeting_tls", true, false, false},
		{"s2c_error_greeting_cert_reqd", true, true, false},
		{"s2c_error_greeting_auth_reqd_tls", true, true, true},
	} {
		h := newLoginHarness(t, func(c *Config) {
			c.Security.CertRequired, c.Security.CredsRequired = tt.q, tt.s
			if !tt.tls {
				c.Files.TLS = ""
			}
		})
		c := h.connect("tcp", h.tcp)
		c.expect("connect", tt.capture)
		h.stop()
	}
}

// The logins that were captured from PCP's clients and C pmcd, played again.
func TestPeerLoginReplay(t *testing.T) {
	const auth, list = "c2s_creds_auth", "s2c_attr_sasl_mechlist"
	h := newLoginHarness(t, func(c *Config) { c.hooks.loginTime = 2 * time.Second })
	c, _ := h.greeted("tcp")
	c.exchange(auth, list)
	c.expect("silence", "s2c_error_auth_timeout")
	c.served("after silence", true)
	h.stop()

	// The other logins have more time.
	h = newLoginHarness(t, nil)
	setPassword(t, filepath.Join(h.dir, "sasldb2"), "root", "secret") // as in the captures
	c, _ = h.greeted("tcp")
	c.exchange(auth, list)
	c.exchange("c2s_attr_sasl_unknown_mech", "s2c_error_auth_no_mechanism")
	c.exchange(auth, list)
	c.exchange("c2s_attr_sasl_plain_wrong", "s2c_error_auth_failed")
	c.exchange(auth, list)
	c.respond("PLAIN\x00\x00dave\x00x")
	c.expect("unknown user", "s2c_error_auth_user_not_found")
	c.exchange(auth, list)
	c.send(&pdu.DescReq{})
	c.expect("a request", "s2c_error_auth_client_left")
	c.exchange("c2s_creds_secure_auth", "s2c_error_secure_ack") // nothing more before the handshake
	secured := c.secured()
	if got := "challenge " + secured.mechanisms(); got != showCapture(t, list) {
		t.Errorf("in TLS: %s", got)
	}
	for _, login := range [][][2]string{
		{{"c2s_attr_sasl_plain", ""}},
		{{"c2s_attr_sasl_login_mech", "s2c_attr_sasl_login_username"}, {"c2s_attr_sasl_login_username", "s2c_attr_sasl_login_password"}, {"c2s_attr_sasl_login_password", ""}},
	} {
		for _, creds := range []string{auth, "c2s_creds_creds_reqd"} {
			c, _ := h.greeted("tcp")
			c.exchange(creds, list)
			for _, step := range login {
				if c.exchange(step[0]); step[1] != "" {
					c.expect(step[0], step[1])
				}
			}
			c.served("logged in", true)
			if info, ok := h.sessions.Clients.Info(1); ok && info.UID != 0 {
				t.Errorf("%v: uid %d", login, info.UID)
			}
			c.Conn.Close()
		}
	}
}

// showCapture returns a capture as showReply does.
func showCapture(t *testing.T, name string) string {
	t.Helper()
	_, m, err := pdu.Parse(capture(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return showReply(m)
}

// A pmcd without TLS refuses it with two errors, and the connection goes on as it is.
func TestNackReplay(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.connect("tcp", r.tcp)
	c.recv()
	c.exchange("c2s_creds_secure", "s2c_error_secure_nack", "s2c_error_secure_nack")
	c.served("afterwards", true)
}
