package daemon

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

const (
	noMech   = "-21348"
	badProt  = "-21349"
	badParam = "-21351"
	badAuth  = "-21357"
	noUser   = "-21364"
)

// Each answer of a client to the list of mechanisms has the result that it has with C pmcd, and
// the client is served afterwards, as no account is required.
func TestPeerLoginDialogue(t *testing.T) {
	h := newLoginHarness(t, nil)
	attr := func(text string) []pdu.Message { return []pdu.Message{&pdu.Attr{Value: []byte(text)}} }
	long := func(n int) string {
		return "PLAIN\x00\x00root\x00" + strings.Repeat("x", n-len("PLAIN\x00\x00root\x00"))
	}
	for _, tt := range []struct {
		name string
		send []pdu.Message // nil: as many bytes as the name says
		want string        // "" is success
	}{
		{"PLAIN", attr("PLAIN\x00\x00root\x00root"), ""},
		{"lower case", attr("plain\x00\x00root\x00root"), ""},
		{"the user as the one to act for", attr("PLAIN\x00root\x00root\x00root"), ""},
		{"another user to act for", attr("PLAIN\x00nobody\x00root\x00root"), badAuth},
		{"blanks around the name", attr("PLAIN\x00\x00 root \x00root"), ""},
		{"wrong password", attr("PLAIN\x00\x00root\x00no"), badAuth},
		{"unknown user", attr("PLAIN\x00\x00dave\x00no"), noUser},
		{"unknown to the system", attr("PLAIN\x00\x00carol\x00carol"), ""}, // 6.0.3: -3
		{"another realm", attr("PLAIN\x00\x00root@elsewhere\x00root"), noUser},
		{"one NUL", attr("PLAIN\x00root\x00root"), badProt},
		{"bytes after the password", attr("PLAIN\x00\x00root\x00root\x00x"), badProt},
		{"no response", attr("PLAIN\x00"), badProt},
		{"no NUL, and no response", attr("PLAIN"), "challenge "},
		{"not offered", attr("SCRAM-SHA-1\x00n,,n=root,r=abc"), noMech},
		{"not offered, but libsasl2 takes it for PLAIN", attr("PLAIN-PLUS\x00\x00root\x00root"), noMech},
		{"EXTERNAL", attr("EXTERNAL\x00root"), noMech},
		{"unknown", attr("NONESUCH\x00"), noMech},
		{"empty", attr(""), badParam},
		{"only a NUL", attr("\x00"), noMech},
		{"another attribute", []pdu.Message{&pdu.Attr{Code: pdu.AttrUserName, Value: []byte("PLAIN\x00\x00root\x00root")}}, ""},
		{"LOGIN", attr("LOGIN\x00"), "challenge Username:"},
		{"2047 bytes", attr(long(2047)), badAuth},
		{"2048 bytes", nil, "PM_ERR_IPC"},
		{"60000 bytes", nil, "PM_ERR_IPC"},
		{"a request", []pdu.Message{&pdu.DescReq{PMID: id(240, 1)}}, "PM_ERR_IPC"},
		{"CREDS", []pdu.Message{pdutest.Creds(0)}, "PM_ERR_IPC"},
		{"ERROR", []pdu.Message{&pdu.Error{Code: pdu.ErrnoNotConn}}, "PM_ERR_NOTCONN"},
		{"ERROR 0", []pdu.Message{&pdu.Error{}}, "PM_ERR_IPC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := h.greeted("tcp")
			c = c.in(t)
			c.creds(pdu.FeatureAuth)
			if got := c.mechanisms(); got != "PLAIN LOGIN SCRAM-SHA-256" {
				t.Fatalf("mechanisms %q", got)
			}
			if n := 0; tt.send == nil {
				fmt.Sscan(tt.name, &n)
				c.sendBytes(rawAttr(long(n)))
			} else {
				c.send(tt.send...)
			}
			switch {
			case tt.want == "challenge ":
				c.want("reply", tt.want)
				c.respond("\x00root\x00root")
			case tt.want == "challenge Username:":
				c.want("reply", tt.want)
				c.respond("root")
				c.want("reply", "challenge Password:")
				c.respond("root")
			case tt.want != "":
				c.want("reply", tt.want)
			}
			c.served("afterwards", true)
			// It can log in again.
			c.plain(0, "root", "root")
			c.served("after another login", true)
		})
	}
	t.Run("70 KB", func(t *testing.T) {
		c, _ := h.greeted("tcp")
		c = c.in(t)
		c.creds(pdu.FeatureAuth)
		c.mechanisms()
		c.sendBytes(rawAttr(long(70000)))
		c.want("reply", "PM_ERR_IPC")
		c.closed() // C pmcd differs
	})
	if n := len(h.logs.With("its password is on the network in clear text")); n != 1 {
		t.Errorf("%d warnings of passwords in clear text, want 1", n)
	}
	if n := h.logs.Exactly(`Successful authentication for user "carol"`); n != 1 {
		t.Errorf("%d lines about carol, want 1", n)
	}
}

// rawAttr returns an ATTR PDU, which can be longer than any client's.
func rawAttr(text string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(pdu.HeaderLen+4+len(text)))
	b = binary.BigEndian.AppendUint32(b, uint32(pdu.TypeAttr))
	return append(append(b, make([]byte, 8)...), text...)
}

// A client that does not go on with its login gets an error, stays connected, and may do
// nothing where an account is required. Meanwhile others are served. TestPeerLoginReplay has a
// client that needs no account.
func TestPeerLoginTimeout(t *testing.T) {
	h := newLoginHarness(t, func(c *Config) { c.Security.CredsRequired, c.hooks.loginTime = true, 5*time.Second })
	silent, _ := h.greeted("tcp")
	silent.creds(pdu.FeatureAuth)
	silent.mechanisms()
	other, _ := h.greeted("unix")
	other.creds(0)
	other.served("another client", true)
	silent.want("silence", "PM_ERR_TIMEOUT")
	silent.served("after silence", false)
	silent.plain(0, "root", "root")
	silent.served("after a login", true)
	h.awaitLogged(t, "pduread: timeout (after 5.000 sec)")
}

// What CREDS does where an account is required, by -S or by rules for users.
func TestPeerLoginRequired(t *testing.T) {
	for _, by := range []string{"-S", "rules"} {
		h := newLoginHarness(t, func(c *Config) { c.Security.CredsRequired = by == "-S" })
		if by == "rules" {
			h.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n[access]\nallow user root : all;\ndisallow user * : all;\n")
			h.reloaded()
		}
		const auth, reqd, secure = pdu.FeatureAuth, pdu.FeatureCredsReqd, pdu.FeatureSecure | pdu.FeatureSecureAck
		for _, tt := range []struct {
			network string
			flags   pdu.Features
			login   bool   // there is one
			want    string // without a login; "" is success
		}{
			{"tcp", 0, false, "PM_ERR_PERMISSION"},
			{"tcp", reqd, true, ""},
			{"tcp", auth, true, ""},
			{"tcp", auth | reqd, true, ""},
			{"tcp", secure | reqd, true, ""},
			{"tcp", secure, false, "PM_ERR_PERMISSION"},
			{"unix", 0, false, ""},
			{"unix", reqd, false, ""},
			{"unix", reqd | secure, false, ""}, // C pmcd neither acknowledges TLS nor begins it
			{"unix", auth, true, ""},
			{"unix", auth | reqd, false, ""},
			{"unix", auth | secure, true, ""},
		} {
			t.Run(fmt.Sprintf("%s %s %#x", by, tt.network, tt.flags), func(t *testing.T) {
				c, features := h.greeted(tt.network)
				c = c.in(t)
				if features&(auth|reqd) != auth|reqd {
					t.Errorf("the greeting offers %#x", features)
				}
				creds := func() {
					c.creds(tt.flags)
					if tt.flags&secure != 0 {
						c.want("acknowledgement", "0")
						c = c.secured()
					}
				}
				creds()
				if !tt.login {
					if tt.want != "" {
						c.want("reply", tt.want)
					}
					c.served("then", tt.want == "")
					return
				}
				// A login that fails denies everything, on the Unix socket too.
				c.mechanisms()
				c.respond("PLAIN\x00\x00root\x00no")
				c.want("wrong password", badAuth)
				c.served("after a wrong password", false)
				c.plain(0, "root", "root")
				c.served("after a login", true)
				// As does one that fails after it.
				c.plain(0, "root", "no")
				c.want("wrong password", badAuth)
				c.served("after a later wrong password", false)
				c.plain(0, "root", "root")
				c.served("after another login", true)
				// Another user has other rights, and one that the system does not know has none.
				c.plain(0, "nobody", "nobody")
				if by == "rules" {
					c.want("another user", "PM_ERR_PERMISSION")
				}
				c.served("as another user", by == "-S")
				c.plain(0, "carol", "carol")
				c.want("unknown to the system", "PM_ERR_PERMISSION")
				c.served("unknown to the system", false)
			})
		}
		h.stop()
	}
}

// The mechanisms that send passwords in clear text can be left to TLS and the Unix socket.
func TestPeerNoClearPasswords(t *testing.T) {
	h := newLoginHarness(t, func(c *Config) { c.Security.NoClearPasswords = true })
	for _, tt := range []struct {
		network string
		flags   pdu.Features
		clear   bool
	}{
		{"tcp", 0, false},
		{"tcp", pdu.FeatureSecure | pdu.FeatureSecureAck, true},
		{"unix", 0, true},
	} {
		for _, mechanism := range []string{"PLAIN", "plain", "LOGIN", "PLAIN-PLUS", "login-plus"} {
			c, _ := h.greeted(tt.network)
			c.creds(pdu.FeatureAuth | tt.flags)
			if tt.flags != 0 {
				c.want("acknowledgement", "0")
				c = c.secured()
			}
			if got := c.mechanisms(); got == "SCRAM-SHA-256" == tt.clear || tt.clear && got != "PLAIN LOGIN SCRAM-SHA-256" {
				t.Errorf("%s %#x: mechanisms %q", tt.network, tt.flags, got)
			}
			response := "\x00root\x00root"
			if mechanism == "LOGIN" {
				response = "root"
			}
			c.respond(mechanism + "\x00" + response)
			switch {
			case !tt.clear || strings.HasSuffix(strings.ToUpper(mechanism), "-PLUS"):
				c.want(mechanism, noMech)
			case mechanism == "LOGIN":
				c.want(mechanism, "challenge Password:")
				c.respond("root")
			}
			c.served(mechanism, true)
		}
	}
	if n := len(h.logs.With("its password is on the network in clear text")); n != 0 {
		t.Errorf("%d warnings of passwords in clear text", n)
	}
	h.awaitLogged(t, "mechanism PLAIN sends passwords in clear text, which --no-clear-passwords does not allow without TLS")
}
