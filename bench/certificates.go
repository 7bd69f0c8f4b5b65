package main

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
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Kinds of keys of a daemon with TLS.
const (
	rsaKey   = "RSA-2048"
	ecdsaKey = "ECDSA P-256"
)

// A certificate is that of a daemon, of its clients, and of the authority, all in one. It is made
// once, so that all daemons show the same.
type certificate struct {
	der []byte
	key crypto.Signer
}

var certificates = sync.OnceValues(func() (map[string]*certificate, error) {
	one, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	all := map[string]*certificate{}
	for kind, key := range map[string]crypto.Signer{rsaKey: one, ecdsaKey: other} {
		if all[kind], err = selfSigned(key); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func selfSigned(key crypto.Signer) (*certificate, error) {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return &certificate{der, key}, err
}

// write writes a tls.conf into dir, and the file that it names.
func (c *certificate) write(dir string) error {
	key, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "server.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	conf := "tls-ca-cert-file = " + file + "\ntls-cert-file = " + file + "\ntls-key-file = " + file + "\n"
	return os.WriteFile(filepath.Join(dir, "tls.conf"), []byte(conf), 0o644)
}

// clientTLS returns the configuration of clients, without a certificate.
//
// They offer only X25519, as OpenSSL 3.0 does. Package tls also offers a hybrid with
// ML-KEM-768, which only the pmcd of this module would choose: it would have more to do than
// C pmcd, and so would its clients.
func clientTLS() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // as PCP's clients do, unless their tls.conf says otherwise
		MinVersion:         tls.VersionTLS13,
		CurvePreferences:   []tls.CurveID{tls.X25519},
	}
}
