package testutil

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Issued certificate has its key and its chain.
type Issued struct {
	Cert  *x509.Certificate
	Key   crypto.Signer
	Above []*Issued // issuers, without the root
	root  bool
}

// Issue makes a certificate for key by a template, whose missing fields have usual values. The
// issuer is nil for a root.
func Issue(t testing.TB, by *Issued, key crypto.Signer, cert x509.Certificate) *Issued {
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
	i := &Issued{Key: key}
	parent, signer := &cert, key
	if by != nil {
		parent, signer = by.Cert, by.Key
		if !by.root {
			i.Above = append([]*Issued{by}, by.Above...)
		}
	}
	i.root = by == nil
	der, err := x509.CreateCertificate(rand.Reader, &cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if i.Cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return i
}

// Edit returns a certificate with another text of the same length, wherever it is, in what by, which is nil for a
// root, signs anew. Its Cert has only Raw, as package x509 may not parse it.
func Edit(t testing.TB, by, i *Issued, before, after string) *Issued {
	t.Helper()
	var c struct {
		Content   asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(i.Cert.Raw, &c); err != nil {
		t.Fatal(err)
	}
	if len(before) != len(after) || !bytes.Contains(c.Content.FullBytes, []byte(before)) {
		t.Fatalf("%q is not in the certificate, or longer or shorter than %q", before, after)
	}
	content := bytes.Replace(c.Content.FullBytes, []byte(before), []byte(after), -1)
	signer := i.Key
	if by != nil {
		signer = by.Key
	}
	digest := sha256.Sum256(content)
	signature, err := signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	c.Content = asn1.RawValue{FullBytes: content}
	c.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	der, err := asn1.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return &Issued{Cert: &x509.Certificate{Raw: der}, Key: i.Key, Above: i.Above, root: i.root}
}

// ECKey returns a new key.
func ECKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Named is a template with the subject CN=name.
func Named(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}}
}

// Authority is a template of a certificate that may sign others.
func Authority(name string) x509.Certificate {
	c := Named(name)
	c.IsCA, c.BasicConstraintsValid = true, true
	return c
}

// PEM returns the certificate and its issuers, without the root.
func (i *Issued) PEM() string {
	text := PEM("CERTIFICATE", i.Cert.Raw)
	for _, a := range i.Above {
		text += PEM("CERTIFICATE", a.Cert.Raw)
	}
	return text
}

// TLS returns the certificate for package tls.
func (i *Issued) TLS() *tls.Certificate {
	c := &tls.Certificate{PrivateKey: i.Key, Certificate: [][]byte{i.Cert.Raw}}
	for _, a := range i.Above {
		c.Certificate = append(c.Certificate, a.Cert.Raw)
	}
	return c
}

// PEM returns a block of this kind.
func PEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// KeyPEM returns a key in PKCS#8.
func KeyPEM(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return PEM("PRIVATE KEY", der)
}

// WriteCertificate writes a self-signed certificate for TLS, with the subject CN=name, and its
// key, as NAME.crt and NAME.key in dir. It is valid for a year before it expires.
func WriteCertificate(t testing.TB, dir, name string, expires time.Time) {
	t.Helper()
	cert := Named(name)
	cert.NotBefore, cert.NotAfter = expires.AddDate(-1, 0, 0), expires
	i := Issue(t, nil, ECKey(t, elliptic.P256()), cert)
	for suffix, text := range map[string]string{".crt": i.PEM(), ".key": KeyPEM(t, i.Key)} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
