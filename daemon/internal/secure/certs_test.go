package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// rsaKey returns the RSA key of these bits. All tests share it, because making one takes
// long.
func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	rsaKeys.Lock()
	defer rsaKeys.Unlock()
	if rsaKeys.of[bits] == nil {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		rsaKeys.of[bits] = key
	}
	return rsaKeys.of[bits]
}

var rsaKeys = struct {
	sync.Mutex
	of map[int]*rsa.PrivateKey
}{of: make(map[int]*rsa.PrivateKey)}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// An issued certificate has its key and its chain.
type issued struct {
	cert  *x509.Certificate
	key   crypto.Signer
	above []*issued // issuers, without the root
	root  bool
}

// issue makes a certificate by a template, whose missing fields have usual values. The
// issuer is nil for a root.
func issue(t testing.TB, by *issued, key crypto.Signer, cert x509.Certificate) *issued {
	t.Helper()
	now := time.Now()
	if cert.NotBefore.IsZero() {
		cert.NotBefore = now.Add(-time.Hour)
	}
	if cert.NotAfter.IsZero() {
		cert.NotAfter = now.AddDate(1, 0, 0)
	}
	if cert.SerialNumber == nil {
		cert.SerialNumber = big.NewInt(now.UnixNano())
	}
	i := &issued{key: key}
	parent, signer := &cert, key
	if by != nil {
		parent, signer = by.cert, by.key
		if !by.root {
			i.above = append([]*issued{by}, by.above...)
		}
	}
	i.root = by == nil
	der, err := x509.CreateCertificate(rand.Reader, &cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if i.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return i
}

// named is a template.
func named(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}}
}

// authority is a template.
func authority(name string) x509.Certificate {
	c := named(name)
	c.IsCA, c.BasicConstraintsValid = true, true
	return c
}

// pem returns the certificates, without the root.
func (i *issued) pem() string {
	text := pemOf("CERTIFICATE", i.cert.Raw)
	for _, a := range i.above {
		text += pemOf("CERTIFICATE", a.cert.Raw)
	}
	return text
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// keyPEM returns a key in PKCS#8.
func keyPEM(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der)
}

// tls returns the certificate for package tls.
func (i *issued) tls() *tls.Certificate {
	c := &tls.Certificate{PrivateKey: i.key, Certificate: [][]byte{i.cert.Raw}}
	for _, a := range i.above {
		c.Certificate = append(c.Certificate, a.cert.Raw)
	}
	return c
}

// conf parses a tls.conf in which @ stands for the directory.
func conf(t testing.TB, dir, text string) *tlsconf.Conf {
	t.Helper()
	c, warnings := tlsconf.Parse("tls.conf", []byte(strings.ReplaceAll(text, "@", dir)))
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	return c
}
