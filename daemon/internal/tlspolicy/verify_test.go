package tlspolicy

import (
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// nsType is an nsCertType extension with one bit.
func nsType(t *testing.T, bit int) []pkix.Extension {
	t.Helper()
	value, err := asn1.Marshal(asn1.BitString{Bytes: []byte{0x80 >> bit}, BitLength: bit + 1})
	if err != nil {
		t.Fatal(err)
	}
	return []pkix.Extension{{Id: nsCertType, Value: value}}
}

// TestClientCertificates has the verdicts of C pmcd (OpenSSL 3.0) about certificates of
// clients. Some alerts differ.
func TestClientCertificates(t *testing.T) {
	p256 := testutil.ECKey(t, elliptic.P256())
	with := func(name string, set func(c *x509.Certificate)) x509.Certificate {
		c := testutil.Named(name)
		set(&c)
		return c
	}
	ca := testutil.Issue(t, nil, rsaKey(t, 2048), testutil.Authority("CA"))
	signingCA := testutil.Authority("CA")
	signingCA.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	usageCA := testutil.Issue(t, nil, rsaKey(t, 2048), signingCA)
	intermediate := testutil.Issue(t, ca, p256, testutil.Authority("intermediate"))
	weakIntermediate := testutil.Issue(t, ca, rsaKey(t, 1024), testutil.Authority("weak intermediate"))
	weakCA := testutil.Issue(t, nil, rsaKey(t, 1024), testutil.Authority("weak CA"))
	server := testutil.Issue(t, ca, p256, testutil.Named("server"))
	incomplete := testutil.Issue(t, intermediate, p256, testutil.Named("incomplete"))
	incomplete.Above = nil
	key := rsaKey(t, 2048)

	const bad, unknown, expired = "bad certificate", "unknown certificate authority", "expired certificate"
	for _, tt := range []struct {
		name   string
		client *testutil.Issued // nil presents none
		alert  string           // "" if the certificate is accepted
		ca     *testutil.Issued // the configured CA; ca if it is nil
		noCA   bool             // none is configured
	}{
		{name: "no certificate"},
		{name: "no extensions", client: testutil.Issue(t, ca, key, testutil.Named("c"))},
		{name: "the CA's own", client: ca},
		{name: "EC", client: testutil.Issue(t, ca, p256, testutil.Named("c"))},
		{name: "leaf and intermediate", client: testutil.Issue(t, intermediate, key, testutil.Named("c"))},
		{name: "nsCertType client", client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.ExtraExtensions = nsType(t, 0) }))},
		{name: "clientAuth", client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }))},
		{name: "digitalSignature", client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }))},
		{name: "nsCertType server", alert: bad, client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.ExtraExtensions = nsType(t, 1) }))},
		{name: "serverAuth", alert: bad, client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))},
		{name: "keyUsage of a CA", alert: bad, client: usageCA, ca: usageCA},
		{name: "keyEncipherment", alert: bad, client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }))},
		{name: "another CA", alert: unknown, client: testutil.Issue(t, testutil.Issue(t, nil, p256, testutil.Authority("other")), key, testutil.Named("c"))},
		{name: "self-signed", alert: unknown, client: testutil.Issue(t, nil, key, testutil.Named("c"))},
		{name: "chain incomplete", alert: unknown, client: incomplete},
		{name: "no CA configured", alert: unknown, noCA: true, client: testutil.Issue(t, ca, key, testutil.Named("c"))},
		{name: "expired", alert: expired, client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}))},
		{name: "RSA 1024", alert: bad, client: testutil.Issue(t, ca, rsaKey(t, 1024), testutil.Named("c"))},
		{name: "SHA-1", alert: unknown, client: testutil.Issue(t, ca, key, with("c", func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }))},
		{name: "by an intermediate of RSA 1024", alert: bad, client: testutil.Issue(t, weakIntermediate, key, testutil.Named("c"))},
		{name: "by a CA of RSA 1024", alert: bad, client: testutil.Issue(t, weakCA, key, testutil.Named("c")), ca: weakCA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]string{"cert": server.PEM(), "key": testutil.KeyPEM(t, server.Key), "ca": ca.PEM()}
			text := "tls-cert-file=@/cert\ntls-key-file=@/key\n"
			if tt.ca != nil {
				texts["ca"] = tt.ca.PEM()
			}
			if !tt.noCA {
				text += "tls-ca-cert-file=@/ca\n"
			}
			dir := testutil.WriteFiles(t, texts)
			for _, require := range []bool{false, true} {
				s, _, err := Load(conf(t, dir, text), Options{RequireClientCert: require})
				if err != nil {
					t.Fatal(err)
				}
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					want := tt.alert
					if tt.client == nil && require {
						want = map[uint16]string{tls.VersionTLS12: "handshake failure", tls.VersionTLS13: "certificate required"}[version]
					}
					err := connect(t, s, version, tt.client)
					if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "remote error: tls: "+want)) {
						t.Errorf("%s, -Q %t: got %v, want %q", tls.VersionName(version), require, err, want)
					}
				}
			}
		})
	}
}

// connect makes a TLS connection with a certificate of the client, or without one, sends a
// byte each way, and returns the error of the client.
func connect(t *testing.T, s *Server, version uint16, client *testutil.Issued) error {
	t.Helper()
	_, err := connectWith(t, s, &tls.Config{
		InsecureSkipVerify: true,
		MinVersion:         version,
		MaxVersion:         version,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if client == nil {
				return new(tls.Certificate), nil
			}
			return client.TLS(), nil
		},
	})
	return err
}

func connectWith(t *testing.T, s *Server, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := socketpair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.Close()
		conn := tls.Server(a, s.Config())
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			conn.Write([]byte{1})
		}
	}()
	defer func() {
		b.Close()
		<-done
	}()
	conn := tls.Client(b, config)
	if err := conn.Handshake(); err != nil {
		return tls.ConnectionState{}, err
	}
	// With TLS 1.3, the server has not looked at the certificate yet. The write fails if
	// the server has gone already.
	conn.Write([]byte{1})
	_, err := conn.Read(make([]byte, 1))
	return conn.ConnectionState(), err
}

// socketpair returns the ends of a connection. A net.Pipe has no buffer, so that both ends
// would write for ever when one sends an alert.
func socketpair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}

// A client may name the server that it wants, but not with any number of bytes: they are kept
// as long as it is connected.
func TestServerName(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	dir := testutil.WriteFiles(t, map[string]string{"cert": testutil.Issue(t, nil, key, testutil.Named("s")).PEM(), "key": testutil.KeyPEM(t, key)})
	s, _, err := Load(conf(t, dir, "tls-cert-file=@/cert\ntls-key-file=@/key\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{0: true, maxServerName: true, maxServerName + 1: false, 60_000: false} {
		name := strings.Repeat("a.", n/2) + strings.Repeat("b", n%2)
		if strings.HasSuffix(name, ".") { // package tls does not send the last dot
			name = name[:n-1] + "b"
		}
		state, err := connectWith(t, s, &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if (err == nil) != ok || ok && state.ServerName != name {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
