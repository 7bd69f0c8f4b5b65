package peertest

import (
	"context"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/clientcert"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// An authority signs the certificate of secure machines, with another one between them.
type authority struct {
	root, server *testutil.Issued
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	issue := func(by *testutil.Issued, template x509.Certificate) *testutil.Issued {
		return testutil.Issue(t, by, testutil.ECKey(t, elliptic.P256()), template)
	}
	a := &authority{root: issue(nil, testutil.Authority("root"))}
	server := testutil.Named("server")
	server.DNSNames = []string{"pmcd.example"}
	a.server = issue(issue(a.root, testutil.Authority("between")), server)
	return a
}

// options are those of a client of m, whatever address it connects to.
func (a *authority) options(m *peer.Machine) pmapi.Options {
	pool := x509.NewCertPool()
	pool.AddCert(a.root.Cert)
	return pmapi.Options{TLS: &tls.Config{RootCAs: pool}, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return m.Dial("tcp", "127.0.0.1:44321")
	}}
}

// secureMachine starts PCP 6.3.8 with TLS, and with logins of the users root and nobody, with
// the pmcd at path and further options.
func secureMachine(t *testing.T, path string, a *authority, options ...string) *peer.Machine {
	t.Helper()
	m := peer.BootRelease(t, peer.Trixie, path)
	const dir = "/etc/pcp/tls/"
	if err := os.MkdirAll(m.Path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		dir + "root.crt":       a.root.PEM(),
		dir + "server.crt":     a.server.PEM(),
		dir + "server.key":     testutil.KeyPEM(t, a.server.Key),
		"/etc/pcp/tls.conf":    "tls-ca-cert-file = " + dir + "root.crt\ntls-cert-file = " + dir + "server.crt\ntls-key-file = " + dir + "server.key\n",
		"/etc/hosts":           "127.0.0.1 localhost pmcd.example\n::1 localhost\n",
		"/etc/sasl2/pmcd.conf": "mech_list: plain login scram-sha-256\nsasldb_path: /etc/pcp/passwd.db\n",
	} {
		if err := os.WriteFile(m.Path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const users = `set -e
printf %s secret | saslpasswd2 -c -p -a pmcd -f /etc/pcp/passwd.db root
printf %s 'a+b%c d&e=f' | saslpasswd2 -c -p -a pmcd -f /etc/pcp/passwd.db nobody
chown pcp:pcp /etc/pcp/passwd.db /etc/pcp/tls/server.key`
	if o, err := m.Run(t.Context(), "/", client("sh", "-c", users)); err != nil || o.Code != 0 {
		t.Fatalf("%v\n%v", err, o)
	}
	const name = "/etc/pcp/pmcd/pmcd.options"
	text, err := os.ReadFile(m.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(name), []byte(string(text)+strings.Join(options, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.AddSample(t)
	m.Start(t)
	return m
}

// eachSecure calls f with the pmcd of PCP 6.3.8, and with ours in its place.
func eachSecure(t *testing.T, f func(t *testing.T, m *peer.Machine, a *authority), options ...string) {
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t)
	for name, path := range map[string]string{"C 6.3.8": "", "ours with 6.3.8": path} {
		t.Run(name, func(t *testing.T) { f(t, secureMachine(t, path, a, options...), a) })
	}
}

// TestGoClientSecureTrixie compares what package pmapi has over TLS, and after a login, with
// what PCP's clients print that connect in the same way.
func TestGoClientSecureTrixie(t *testing.T) {
	eachSecure(t, func(t *testing.T, m *peer.Machine, a *authority) {
		var targets []clientTarget
		for name, host := range map[string]string{
			"TLS":          "pcps://pmcd.example",
			"TLS, login":   "pcps://pmcd.example?username=nobody&password=a%2Bb%25c%20d%26e%3Df&method=scram-sha-256",
			"clear, login": "pcp://pmcd.example?username=root&password=secret&method=plain",
		} {
			targets = append(targets, machineTarget(m, name, host, host, a.options(m)))
		}
		compareGoClient(t, targets)
	})
}

// TestGoClientAuthoritiesTrixie connects with authorities and names that are right and wrong.
func TestGoClientAuthoritiesTrixie(t *testing.T) {
	eachSecure(t, func(t *testing.T, m *peer.Machine, a *authority) {
		other := newAuthority(t) // the same names, other keys
		var unknown x509.UnknownAuthorityError
		var name x509.HostnameError
		for _, tt := range []struct {
			what, host string
			a          *authority
			want       any // for errors.As, or nil
		}{
			{"right", "pcps://pmcd.example", a, nil},
			{"another authority", "pcps://pmcd.example", other, &unknown},
			{"another name", "pcps://other.example", a, &name},
			{"an address", "pcps://127.0.0.1", a, &name},
		} {
			c, err := pmapi.Dial(t.Context(), tt.host, tt.a.options(m))
			switch {
			case err == nil && tt.want != nil:
				t.Errorf("%s: the certificate is accepted", tt.what)
			case tt.want == nil && err != nil || tt.want != nil && !errors.As(err, tt.want):
				t.Errorf("%s: %v", tt.what, err)
			}
			if err == nil {
				c.Close()
			}
		}
		c := goClient(t, "pcps://pmcd.example", pmapi.Options{AnyCertificate: true, DialContext: other.options(m).DialContext})
		if _, err := c.Lookup(t.Context(), "sample.long.one"); err != nil {
			t.Error(err)
		}
	})
}

// TestGoClientCertificateTrixie connects to a pmcd that requires a certificate (-Q), with that of
// tls.conf and without one.
func TestGoClientCertificateTrixie(t *testing.T) {
	eachSecure(t, func(t *testing.T, m *peer.Machine, a *authority) {
		client := testutil.Issue(t, a.root, testutil.ECKey(t, elliptic.P256()), testutil.Named("client"))
		dir := testutil.WriteFiles(t, map[string]string{"crt": client.PEM(), "key": testutil.KeyPEM(t, client.Key)})
		conf := filepath.Join(dir, "tls.conf")
		t.Setenv("PCP_TLSCONF_PATH", conf)
		dial := func(text string) error {
			if err := os.WriteFile(conf, []byte(strings.ReplaceAll(text, "@", dir)), 0o644); err != nil {
				t.Fatal(err)
			}
			o := a.options(m)
			o.TLS.GetClientCertificate = clientcert.Config().GetClientCertificate
			c, err := pmapi.Dial(t.Context(), "pcps://pmcd.example", o)
			if err == nil {
				defer c.Close()
				_, err = c.Lookup(t.Context(), "sample.long.one")
			}
			return err
		}
		if err := dial("tls-client-cert-file = @/crt\ntls-client-key-file = @/key\n"); err != nil {
			t.Error(err)
		}
		if err := dial("tls-cert-file = @/crt\ntls-key-file = @/none\n"); err == nil || !strings.Contains(err.Error(), conf+":2: tls-key-file: open "+dir+"/none: ") {
			t.Errorf("without the key: %v", err)
		}
	}, "-Q")
}

// TestGoClientLoginsTrixie logs in by each mechanism.
func TestGoClientLoginsTrixie(t *testing.T) {
	eachSecure(t, func(t *testing.T, m *peer.Machine, a *authority) {
		const badAuth = pdu.ErrnoNYI - 13
		for _, scheme := range []string{"pcp", "pcps"} {
			for _, method := range []string{"scram-sha-256", "plain", "login", ""} {
				for password, want := range map[string]error{"a%2Bb%25c%20d%26e%3Df": nil, "wrong": badAuth} {
					t.Run(scheme+" "+method+" "+password, func(t *testing.T) {
						host := scheme + "://pmcd.example?username=nobody&password=" + password
						if method != "" {
							host += "&method=" + method
						}
						c, err := pmapi.Dial(t.Context(), host, a.options(m))
						if !errors.Is(err, want) {
							t.Fatalf("%v, want %v", err, want)
						}
						if err == nil {
							defer c.Close()
							isNobody(t, c)
						}
					})
				}
			}
		}
	})
}
