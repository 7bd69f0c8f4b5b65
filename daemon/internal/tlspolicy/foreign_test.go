// As in pmcd:
//
//go:debug x509negativeserial=1
//go:debug x509rsacrt=0

package tlspolicy

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// foreignCert is a template whose parts the edits below replace.
func foreignCert(name string) x509.Certificate {
	c := testutil.Named(name)
	c.SerialNumber = big.NewInt(0x7f414243)
	c.DNSNames = []string{"host.example"}
	return c
}

// edits make certificates that OpenSSL 3.0 takes. With want, package x509 does not.
var edits = []struct{ name, before, after, want string }{
	{"negative serial number", "\x02\x04\x7fABC", "\x02\x04\xffABC", ""},
	{"T61String", "\x13\x08leafname", "\x14\x08leafn\xfcme", ""},
	{"byte above 127", "\x13\x08leafname", "\x13\x08leafn\xfcme", "invalid PrintableString"},
	{"underscore", "\x13\x08leafname", "\x13\x08leaf_ame", "invalid PrintableString"},
	{"IA5String", "\x13\x08leafname", "\x16\x08leafn\xfcme", "invalid IA5String"},
	{"UniversalString", "\x13\x08leafname", "\x1c\x08\x00\x00\x00a\x00\x00\x00b", "unsupported string type"},
	{"DNS name", "host.example", "h\xf6st.example", "SAN dNSName is malformed"},
	{"URI", "\x82\x0chost.example", "\x86\x0c://\x7f%zz/#xxx", "cannot parse URI"},
	{"IP address", "\x82\x0chost.example", "\x87\x0chost.example", "cannot parse IP address"},
	{"version", "\xa0\x03\x02\x01\x02", "\xa0\x03\x02\x01\x05", "invalid version"},
}

// pmcd uses certificates of its own that only OpenSSL takes, and knows their key, their dates and
// their subject. Those of authorities are left out.
func TestForeignCertificates(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	ca := testutil.Issue(t, nil, key, testutil.Authority("CA"))
	leaf := testutil.Issue(t, ca, key, foreignCert("leafname"))
	above := testutil.Issue(t, ca, key, func() x509.Certificate {
		c := foreignCert("leafname")
		c.IsCA, c.BasicConstraintsValid = true, true
		return c
	}())
	for _, tt := range edits {
		t.Run(tt.name, func(t *testing.T) {
			edited := testutil.Edit(t, ca, leaf, tt.before, tt.after)
			editedCA := testutil.Edit(t, ca, above, tt.before, tt.after)
			dir := testutil.WriteFiles(t, map[string]string{"cert": edited.PEM(), "chain": leaf.PEM() + editedCA.PEM(), "key": testutil.KeyPEM(t, key), "ca": editedCA.PEM(), "cas": ca.PEM() + editedCA.PEM()})
			for _, file := range []struct {
				conf, warning string
				authorities   int
			}{
				{"tls-cert-file=@/cert\ntls-key-file=@/key\n", "certificate 1 (CN=", 0},
				{"tls-cert-file=@/chain\ntls-key-file=@/key\n", "certificate 2 (CN=", 0},
				{"tls-cert-file=@/chain\ntls-key-file=@/key\ntls-ca-cert-file=@/ca\n", "1 of 1 certificates are left out; the first is certificate 1: x509:", 0},
				{"tls-cert-file=@/chain\ntls-key-file=@/key\ntls-ca-cert-file=@/cas\n", "1 of 2 certificates are left out; the first is certificate 2: x509:", 1},
			} {
				s, warnings, err := Load(conf(t, dir, file.conf), Options{})
				if err != nil {
					t.Errorf("%s: %v", file.conf, err)
					continue
				}
				text := fmt.Sprint(warnings.Unwrap())
				if tt.want == "" && strings.Contains(text, "x509") || tt.want != "" && !(strings.Contains(text, file.warning) && strings.Contains(text, tt.want)) {
					t.Errorf("%s: warnings %q", file.conf, text)
				}
				c := s.Certificate()
				if own := strings.Contains(file.conf, "/cert\n"); own && !bytes.Equal(c.Raw, edited.Cert.Raw) || !s.Expires().Equal(leaf.Cert.NotAfter) || s.ExpiryProblem(time.Now()) != "" ||
					!strings.HasPrefix(c.Subject.String(), "CN=") || len(s.Config().Certificates[0].Certificate) < 1 {
					t.Errorf("%s: got %+v", file.conf, c)
				}
				want := file.authorities
				if tt.want == "" && strings.Contains(file.conf, "ca-cert-file") {
					want++
				}
				if got := authorities(s); got != want {
					t.Errorf("%s: %d authorities, want %d", file.conf, got, want)
				}
			}
		})
	}
}

// PEM files as OpenSSL reads them.
func TestForeignFiles(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	ca := testutil.Issue(t, nil, key, testutil.Authority("CA"))
	leaf := testutil.Issue(t, ca, key, testutil.Named("leaf"))
	uses := func(trusted, refused []asn1.ObjectIdentifier) []byte {
		der, err := asn1.Marshal(struct {
			Trusted []asn1.ObjectIdentifier `asn1:"optional,omitempty"`
			Refused []asn1.ObjectIdentifier `asn1:"optional,omitempty,tag:0"`
			Alias   string                  `asn1:"utf8"`
		}{trusted, refused, "alias"})
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	serverAuth := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	for _, tt := range []struct {
		name string
		edit func(text string, der []byte) string
		left bool // the authority is left out
	}{
		{"byte order mark", func(text string, _ []byte) string { return "\uFEFF" + text }, false},
		{"byte order mark and text", func(text string, _ []byte) string { return "\uFEFFsubject=x\n" + text }, false},
		{"CRLF", func(text string, _ []byte) string { return strings.ReplaceAll(text, "\n", "\r\n") }, false},
		{"byte order mark and CRLF", func(text string, _ []byte) string { return "\uFEFF" + strings.ReplaceAll(text, "\n", "\r\n") }, false},
		{"text around", func(text string, _ []byte) string { return "Bag Attributes\n    friendlyName: x\n" + text + "garbage" }, false},
		{"blanks at the ends of lines", func(text string, _ []byte) string { return strings.ReplaceAll(text, "\n", "  \n") }, false},
		{"no newline at the end", func(text string, _ []byte) string { return strings.TrimRight(text, "\n") }, false},
		{"data after it", func(_ string, der []byte) string { return testutil.PEM("CERTIFICATE", append(bytes.Clone(der), 0, 0)) }, false},
		{"trusted", func(_ string, der []byte) string { return testutil.PEM("TRUSTED CERTIFICATE", der) }, false},
		{"trusted with an alias", func(_ string, der []byte) string {
			return testutil.PEM("TRUSTED CERTIFICATE", append(bytes.Clone(der), uses(nil, nil)...))
		}, false},
		{"trusted for clients", func(_ string, der []byte) string {
			return testutil.PEM("TRUSTED CERTIFICATE", append(bytes.Clone(der), uses([]asn1.ObjectIdentifier{serverAuth, clientAuth}, nil)...))
		}, false},
		{"trusted for servers", func(_ string, der []byte) string {
			return testutil.PEM("TRUSTED CERTIFICATE", append(bytes.Clone(der), uses([]asn1.ObjectIdentifier{serverAuth}, nil)...))
		}, true},
		{"refused for clients", func(_ string, der []byte) string {
			return testutil.PEM("TRUSTED CERTIFICATE", append(bytes.Clone(der), uses(nil, []asn1.ObjectIdentifier{clientAuth})...))
		}, true},
		{"refused for all", func(_ string, der []byte) string {
			return testutil.PEM("TRUSTED CERTIFICATE", append(bytes.Clone(der), uses(nil, []asn1.ObjectIdentifier{anyUsage})...))
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			keyText := testutil.KeyPEM(t, key)
			if edited := tt.edit(keyText, nil); strings.Contains(edited, "PRIVATE KEY") {
				keyText = edited
			}
			dir := testutil.WriteFiles(t, map[string]string{
				"cert": tt.edit(leaf.PEM(), leaf.Cert.Raw), "key": keyText, "ca": tt.edit(ca.PEM(), ca.Cert.Raw),
			})
			s, warnings, err := Load(conf(t, dir, "tls-cert-file=@/cert\ntls-key-file=@/key\ntls-ca-cert-file=@/ca\n"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := authorities(s); (got == 0) != tt.left || (len(warnings) > 0) != tt.left || !s.Certificate().Equal(leaf.Cert) {
				t.Errorf("%d authorities, certificate of %v, warnings %q", got, s.Certificate().Subject, warnings.Unwrap())
			}
		})
	}
}

// must returns a function that returns DER, or ends the test.
func must(t *testing.T) func([]byte, error) []byte {
	return func(der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
}

// A key that OpenSSL may be able to use is told from a file that it cannot use either.
func TestForeignKeys(t *testing.T) {
	key := testutil.ECKey(t, elliptic.P256())
	leaf := testutil.Issue(t, nil, key, testutil.Named("leaf"))
	crt := rsaKey(t, 2048)
	rsaLeaf := testutil.Issue(t, nil, crt, testutil.Named("rsa"))
	wrong := new(big.Int).Xor(crt.Precomputed.Qinv, big.NewInt(2))
	wrongCRT := bytes.Replace(x509.MarshalPKCS1PrivateKey(crt), crt.Precomputed.Qinv.Bytes(), wrong.Bytes(), 1)
	const p256, p192 = "\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07", "\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x01"
	p192Leaf := testutil.Edit(t, nil, leaf, p256, p192)
	p192Key := strings.Replace(string(must(t)(x509.MarshalPKCS8PrivateKey(key))), p256, p192, 1)
	dsa := must(t)(asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10040, 4, 1}}, []byte("x")}))
	dir := testutil.WriteFiles(t, map[string]string{
		"cert": leaf.PEM(), "key": testutil.KeyPEM(t, key), "192.cert": p192Leaf.PEM(), "192.key": testutil.PEM("PRIVATE KEY", []byte(p192Key)),
		"dsa.key": testutil.PEM("PRIVATE KEY", dsa), "rsa.cert": rsaLeaf.PEM(), "crt.key": testutil.PEM("RSA PRIVATE KEY", wrongCRT),
		"bad.key": testutil.PEM("PRIVATE KEY", []byte("x")), "chain": leaf.PEM() + p192Leaf.PEM(),
	})
	for _, tt := range []struct {
		name, cert, key string
		good, foreign   bool
	}{
		{"wrong CRT values", "rsa.cert", "crt.key", true, false},
		{"a curve that Go does not have", "192.cert", "192.key", false, true},
		{"such a key, of an issuer", "chain", "key", true, false},
		{"such a key, alone", "cert", "192.key", false, true},
		{"DSA", "cert", "dsa.key", false, true},
		{"no key", "cert", "bad.key", false, false},
		{"one of each", "192.cert", "bad.key", false, false},
		{"no file", "192.cert", "none", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load(conf(t, dir, "tls-cert-file=@/"+tt.cert+"\ntls-key-file=@/"+tt.key+"\n"), Options{})
			var errs Errors
			if (err == nil) != tt.good || errors.As(err, &errs) && errs.Foreign() != tt.foreign {
				t.Errorf("%v; may OpenSSL use them: %t", err, errs.Foreign())
			}
		})
	}
}

// authorities returns how many authorities for clients a policy has.
func authorities(s *Server) int {
	return len(s.Config().ClientCAs.Subjects()) //lint:ignore SA1019 it is no pool of the system
}
