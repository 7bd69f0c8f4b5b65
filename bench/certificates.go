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
	"fmt"
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

// certificates are made once, so that all daemons show the same ones.
type certificates struct {
	authority *x509.Certificate
	server    map[string]*tls.Certificate // by kind of key
	client    *tls.Certificate
}

var makeCertificates = sync.OnceValues(func() (*certificates, error) {
	all := &certificates{server: map[string]*tls.Certificate{}}
	ca, err := issue("ca", ecdsaKey, nil)
	if err != nil {
		return nil, err
	}
	all.authority = ca.Leaf
	for _, kind := range []string{rsaKey, ecdsaKey} {
		if all.server[kind], err = issue("server", kind, ca); err != nil {
			return nil, err
		}
	}
	all.client, err = issue("client", ecdsaKey, ca)
	return all, err
})

// issue makes a certificate that by signs; nil is the authority, which signs its own.
func issue(name, kind string, by *tls.Certificate) (*tls.Certificate, error) {
	var key crypto.Signer
	var err error
	if kind == rsaKey {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	parent, signer := c, crypto.PrivateKey(key)
	if by == nil {
		c.IsCA, c.BasicConstraintsValid = true, true
	} else {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// write writes a tls.conf into dir, and the files that it names.
func (all *certificates) write(dir, kind string) error {
	cert := all.server[kind]
	if cert == nil {
		return fmt.Errorf("no certificate with a key of kind %q", kind)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	conf := ""
	for _, f := range []struct {
		option, name, kind string
		der                []byte
	}{
		{"tls-ca-cert-file", "ca.crt", "CERTIFICATE", all.authority.Raw},
		{"tls-cert-file", "server.crt", "CERTIFICATE", cert.Certificate[0]},
		{"tls-key-file", "server.key", "PRIVATE KEY", key},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return err
		}
		conf += f.option + " = " + path + "\n"
	}
	return os.WriteFile(filepath.Join(dir, "tls.conf"), []byte(conf), 0o644)
}
