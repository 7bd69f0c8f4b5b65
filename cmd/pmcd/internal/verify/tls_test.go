package verify

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// What is wrong with TLS, which is an error if pmcd would not start.
func TestVerifyTLS(t *testing.T) {
	files(t, map[string]string{"conf": "pmcd 2 dso pmcd_init /none\n", "pmns": "root { a }\na { b 2:0:0 }\n"})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tls.conf")
	t.Setenv("PCP_TLSCONF_PATH", path)
	expires := time.Now().AddDate(1, 0, 0).UTC()
	testutil.WriteCertificate(t, dir, "a", expires)
	testutil.WriteCertificate(t, dir, "old", time.Now().Add(-time.Hour))
	// The key of a kind that OpenSSL has, and Go has not, and a certificate with a name that Go does not read.
	key := testutil.ECKey(t, elliptic.P256())
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	const p256, p192 = "\x2a\x86\x48\xce\x3d\x03\x01\x07", "\x2a\x86\x48\xce\x3d\x03\x01\x01"
	odd := testutil.Edit(t, nil, testutil.Issue(t, nil, key, testutil.Named("odd name")), "\x13\x08odd name", "\x13\x08odd_name")
	for name, text := range map[string]string{
		"p192.key": testutil.PEM("PRIVATE KEY", bytes.Replace(der, []byte(p256), []byte(p192), 1)),
		"odd.key":  testutil.KeyPEM(t, key), "odd.crt": odd.PEM(),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const info = "@/tls.conf: Info: TLS is on: the certificate of CN="
	good := info + "a expires on " + expires.Truncate(time.Second).Format(time.RFC1123) + "\n"
	for _, tt := range []struct {
		name, arg, text, want string // @ is dir; want is the beginning
		code                  int
	}{
		{"off", "-v", "# nothing\n", "", 0},
		{"on", "-v", "tls-cert-file = @/a.crt\ntls-key-file = @/a.key\n", good, 0},
		{"on, for PCP's script", "--verify", "tls-cert-file = @/a.crt\ntls-key-file = @/a.key\n", "", 0},
		{"a warning", "-v", "tls-cert-file = @/a.crt\ntls-key-file = @/a.key\nx\n",
			"@/tls.conf:3: Warning: \"x\" has neither = nor : after it; the line is ignored\n" + good, 0},
		{"-Q", "-vQ", "tls-cert-file = @/a.crt\ntls-key-file = @/a.key\n", "@/tls.conf:1: Warning: no client can connect: -Q requires", 0},
		{"warnings, for PCP's script", "--verify", "tls-cert-file = @/old.crt\ntls-key-file = @/old.key\nx\n", "", 0},
		{"expired", "-v", "tls-cert-file = @/old.crt\ntls-key-file = @/old.key\n", "Warning: the TLS certificate in @/old.crt (CN=old) expired on ", 0},
		{"a key for OpenSSL", "-v", "tls-cert-file = @/a.crt\ntls-key-file = @/p192.key\n",
			"@/tls.conf:2: Warning: TLS is off: Cannot load private key from @/p192.key: Go cannot use it: x509:", 0},
		{"a key for OpenSSL, for PCP's script", "--verify", "tls-cert-file = @/a.crt\ntls-key-file = @/p192.key\n", "", 0},
		{"a certificate for OpenSSL", "-v", "tls-cert-file = @/odd.crt\ntls-key-file = @/odd.key\n",
			"@/tls.conf:1: Warning: @/odd.crt: certificate 1 (CN=odd_name): clients in Go, such as pmcdctl, do not accept it, and PCP's do: x509:", 0},
		{"errors", "--verify", "tls-cert-file = /none\n\ntls-key-file = /none\n",
			"@/tls.conf:1: Error: Cannot load certificate chain from /none: no such file or directory\n" +
				"@/tls.conf:3: Error: Cannot load private key from /none: no such file or directory\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(tt.text, "@", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			code := verifyArgs(t, &stderr, tt.arg, "-f", "-c", "conf", "-n", "pmns")
			if want := strings.ReplaceAll(tt.want, "@", dir); code != tt.code || !strings.HasPrefix(stderr.String(), want) || want == "" && stderr.Len() > 0 {
				t.Errorf("exit code %d, want %d; got\n%s\nwant\n%s", code, tt.code, stderr.String(), want)
			}
		})
	}
}

// Root checks with the rights of the user that pmcd becomes, and keeps its own.
func TestVerifyTLSAsUser(t *testing.T) {
	testutil.NeedRoot(t)
	files(t, map[string]string{"conf": "pmcd 2 dso pmcd_init /none\n", "pmns": "root { a }\na { b 2:0:0 }\n"})
	dir := testutil.SharedDir(t)
	path := filepath.Join(dir, "tls.conf")
	t.Setenv("PCP_TLSCONF_PATH", path)
	testutil.WriteCertificate(t, dir, "a", time.Now().AddDate(1, 0, 0))
	if err := os.WriteFile(path, []byte("tls-cert-file = "+dir+"/a.crt\ntls-key-file = "+dir+"/a.key\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		user, readable, want string
		code                 int
	}{
		{"root", "", "", 0},
		{"daemon", "", path + ":1: Error: Cannot load certificate chain from " + dir + "/a.crt: permission denied\n" +
			path + ":2: Error: Cannot load private key from " + dir + "/a.key: permission denied\n", 1},
		{"daemon", "a.crt", path + ":2: Error: Cannot load private key from " + dir + "/a.key: permission denied\n", 1},
	} {
		if tt.readable != "" {
			if err := os.Chmod(filepath.Join(dir, tt.readable), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var stderr strings.Builder
		if code := verifyArgs(t, &stderr, "--verify", "-U", tt.user, "-c", "conf", "-n", "pmns"); code != tt.code || stderr.String() != tt.want {
			t.Errorf("%s: exit code %d, want %d; got\n%s\nwant\n%s", tt.user, code, tt.code, stderr.String(), tt.want)
		}
	}
	if _, err := os.ReadFile(filepath.Join(dir, "a.key")); err != nil {
		t.Errorf("root has lost rights: %v", err)
	}
}
