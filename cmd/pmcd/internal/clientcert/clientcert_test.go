package clientcert

import (
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// files makes a directory with certificates and keys: both is for clients and servers, server for
// servers only, other is of another authority.
func files(t *testing.T) (dir string, ca *testutil.Issued) {
	t.Helper()
	dir = t.TempDir()
	issue := func(by *testutil.Issued, name string, uses ...x509.ExtKeyUsage) *testutil.Issued {
		template := testutil.Named(name)
		if by == nil {
			template = testutil.Authority(name)
		}
		template.ExtKeyUsage = uses
		i := testutil.Issue(t, by, testutil.ECKey(t, elliptic.P256()), template)
		write(t, dir, name+".crt", i.PEM())
		write(t, dir, name+".key", testutil.KeyPEM(t, i.Key))
		return i
	}
	ca = issue(nil, "ca")
	issue(ca, "both", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
	issue(ca, "server", x509.ExtKeyUsageServerAuth)
	issue(ca, "plain")
	issue(issue(nil, "ca2"), "other")
	write(t, dir, "empty", "")
	return dir, ca
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCertificate(t *testing.T) {
	dir, ca := files(t)
	request := &tls.CertificateRequestInfo{
		AcceptableCAs: [][]byte{ca.Cert.RawSubject}, Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
	}
	for _, tt := range []struct {
		name, conf string // @ is dir
		want       string // the name of the certificate
		err        string // what the error has; the path of tls.conf is before it
	}{
		{"nothing", "", "", " sets neither tls-client-cert-file nor tls-cert-file"},
		{"authorities only", "tls-ca-cert-file = @/ca.crt\n", "", " sets neither"},
		{"that of the host", "tls-cert-file = @/both.crt\ntls-key-file = @/both.key\n", "both", ""},
		{"that of clients", "tls-client-cert-file = @/plain.crt\ntls-client-key-file = @/plain.key\n", "plain", ""},
		{"both", "tls-cert-file = @/both.crt\ntls-key-file = @/none\ntls-client-cert-file = @/plain.crt\ntls-client-key-file = @/plain.key\n", "plain", ""},
		{"the key of clients alone", "tls-cert-file = @/both.crt\ntls-key-file = @/both.key\ntls-client-key-file = @/plain.key\n", "both", ""},
		{"no key", "tls-key-file = @/plain.key\ntls-client-cert-file = @/plain.crt\n", "", ":2: tls-client-cert-file: no key belongs to"},
		{"no file of the key", "\ntls-cert-file = @/both.crt\ntls-key-file = @/none\n", "", ":3: tls-key-file: open @/none: no such file or directory"},
		{"no file of the certificate", "tls-cert-file = @/none\ntls-key-file = @/both.key\n", "", ":1: tls-cert-file: open @/none: no such file or directory"},
		{"a directory", "tls-cert-file = @/both.crt\ntls-key-file = @\n", "", ":2: tls-key-file: "},
		{"an empty key", "tls-cert-file = @/both.crt\ntls-key-file = @/empty\n", "", ":2: tls-key-file: @/empty, for the certificate in @/both.crt: "},
		{"another key", "tls-cert-file = @/both.crt\ntls-key-file = @/plain.key\n", "", ":2: tls-key-file: @/plain.key, for the certificate in @/both.crt: "},
		{"for servers only", "tls-cert-file = @/server.crt\ntls-key-file = @/server.key\n", "", ":1: tls-cert-file: @/server.crt: the certificate is not for clients"},
		{"of another authority", "tls-cert-file = @/other.crt\ntls-key-file = @/other.key\n", "", ":1: tls-cert-file: @/other.crt: pmcd does not accept such a certificate: "},
		{"of clients, of another authority", "tls-client-cert-file = @/other.crt\ntls-client-key-file = @/other.key\n", "other", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, dir, "tls.conf", strings.ReplaceAll(tt.conf, "@", dir))
			path := filepath.Join(dir, "tls.conf")
			t.Setenv("PCP_TLSCONF_PATH", path)
			cert, err := Config().GetClientCertificate(request)
			switch want := path + strings.ReplaceAll(tt.err, "@", dir); {
			case tt.err != "":
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			case err != nil:
				t.Error(err)
			case cert.Leaf == nil || cert.Leaf.Subject.CommonName != tt.want:
				t.Errorf("got %+v, want that of %s", cert, tt.want)
			}
		})
	}
}

// The path is that of the environment or of pcp.conf.
func TestPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PCP_CONF", filepath.Join(dir, "pcp.conf"))
	for _, tt := range []struct{ env, conf, want string }{
		{"/a/tls.conf", "PCP_TLSCONF_PATH=/b/tls.conf\n", "/a/tls.conf"},
		{"", "", "/etc/pcp/tls.conf"},
	} {
		t.Setenv("PCP_TLSCONF_PATH", tt.env)
		write(t, dir, "pcp.conf", tt.conf)
		if got := path(); got != tt.want {
			t.Errorf("PCP_TLSCONF_PATH=%s, pcp.conf %q: %s, want %s", tt.env, tt.conf, got, tt.want)
		}
	}
	os.Unsetenv("PCP_TLSCONF_PATH") // Setenv restores it
	write(t, dir, "pcp.conf", "PCP_TLSCONF_PATH="+dir+"/none\n")
	if got := path(); got != dir+"/none" {
		t.Errorf("of pcp.conf: %s", got)
	}
	for _, p := range []string{dir + "/none", dir} { // the second is a directory
		t.Setenv("PCP_TLSCONF_PATH", p)
		if _, err := certificate(new(tls.CertificateRequestInfo)); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
