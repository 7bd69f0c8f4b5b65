package tlspolicy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// chain reads tls-cert-file. It returns nil after an error.
func (l *loader) chain() []*x509.Certificate {
	v := l.conf.CertFile
	chain, err := l.readChain(v)
	if err != nil {
		l.fail(v, "Cannot load certificate chain from", err)
		return nil
	}
	for i, c := range chain[1:] {
		if !bytes.Equal(chain[i].RawIssuer, c.RawSubject) {
			l.warn(v, fmt.Errorf("%s: certificate %d (%v) is not of the issuer of certificate %d (%v); clients may not accept the chain",
				v.Text, i+2, c.Subject, i+1, chain[i].Subject))
		}
	}
	return chain
}

// readChain reads a certificate and those of its issuers.
func (l *loader) readChain(v tlsconf.Value) ([]*x509.Certificate, error) {
	text, err := tlsconf.ReadFile(v.Text)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for n, block := range certificateBlocks(text) {
		c, err := ownCertificate(block.der)
		if isForeign(err) {
			l.warn(v, fmt.Errorf("%s: certificate %d%s: clients in Go, such as pmcdctl, do not accept it, and PCP's do: %w", v.Text, n+1, subjectOf(c), err))
			err = nil
		}
		if err == nil {
			if err = checkKey(c.PublicKey); isForeign(err) && n > 0 {
				err = nil // only clients use it
			}
		}
		if err == nil && weakSignature(c) {
			err = fmt.Errorf("its signature (%v) is too weak", c.SignatureAlgorithm)
		}
		if err != nil {
			return nil, fmt.Errorf("certificate %d%s: %w", n+1, subjectOf(c), err)
		}
		chain = append(chain, c)
	}
	if chain == nil {
		return nil, errNoPEM("certificate")
	}
	if key, ok := chain[0].PublicKey.(*ecdsa.PublicKey); ok && key.Curve == elliptic.P224() {
		return nil, foreign("a key of curve P-224 cannot be used with TLS 1.3")
	}
	return chain, nil
}

func errNoPEM(what string) error {
	return fmt.Errorf("the file has no %s in PEM form (-----BEGIN ...)", what)
}

// subjectOf returns the subject of c, which may be nil, for a message.
func subjectOf(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return " (" + printable(c.Subject.String()) + ")"
}

// printable returns a text that may be of a client: it must not end a line of the log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}

// minRSA is the length of an RSA key with a strength of 112 bits, in bits.
const minRSA = 2048

// checkKey returns an error for a public key that is too weak, or that package tls cannot
// use. Other keys of these kinds have a strength of 112 bits or more.
func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if n := key.N.BitLen(); n < minRSA {
			return fmt.Errorf("its RSA key has %d bits; %d or more are required", n, minRSA)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return foreign("its key is neither RSA, ECDSA with P-256, P-384 or P-521, nor Ed25519")
	}
	return nil
}

// weakSignature reports whether the signature of c is with SHA-1 or MD5. The signature of a
// root is not used.
func weakSignature(c *x509.Certificate) bool {
	switch c.SignatureAlgorithm {
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1:
		return !bytes.Equal(c.RawIssuer, c.RawSubject)
	}
	return false
}

// key reads tls-key-file and adds the certificate to config. The chain is nil if it could
// not be read.
func (l *loader) key(config *tls.Config, chain []*x509.Certificate) {
	v := l.conf.KeyFile
	if !v.IsSet() {
		l.errors = append(l.errors, &Error{Pos: l.conf.CertFile.Pos, Text: "no private key found", Err: errors.New("tls-cert-file is set, and tls-key-file is not")})
		return
	}
	key, err := readKey(v.Text)
	if err == nil && chain != nil {
		// All public keys of the standard library have this method.
		if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(chain[0].PublicKey) {
			err = fmt.Errorf("it is not the key of the certificate in %s%s", l.conf.CertFile.Text, subjectOf(chain[0]))
		}
	}
	if err != nil {
		l.fail(v, "Cannot load private key from", err)
		return
	}
	const others = 0o007
	if fi, err := os.Stat(v.Text); err == nil && fi.Mode()&others != 0 {
		l.warn(v, fmt.Errorf("all users of this host have access to the private key %s (mode %#o): chmod o= %[1]s", v.Text, fi.Mode().Perm()))
	}
	if chain == nil {
		return
	}
	cert := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	config.Certificates = []tls.Certificate{cert}
}

// readKey reads the first private key of a file.
func readKey(path string) (crypto.Signer, error) {
	text, err := tlsconf.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = nextBlock(text); block == nil {
			return nil, errNoPEM("private key")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, errors.New("the key is encrypted, and there is no way to enter its password; openssl pkey -in OLD -out NEW decrypts it")
		}
		return parseKey(block)
	}
}

// parseKey parses a private key in one of the three forms that OpenSSL has written. The type of
// the block says in which form it should be.
func parseKey(block *pem.Block) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		rsa, rsaErr := x509.ParsePKCS1PrivateKey(block.Bytes)
		if rsaErr == nil {
			return rsa, nil
		}
		ec, ecErr := x509.ParseECPrivateKey(block.Bytes)
		if ecErr == nil {
			return ec, nil
		}
		switch block.Type {
		case "RSA PRIVATE KEY":
			err = rsaErr
		case "EC PRIVATE KEY":
			err = ecErr
		}
		if rest, notDER := asn1.Unmarshal(block.Bytes, new(asn1.RawValue)); notDER == nil && len(rest) == 0 {
			return nil, foreign("Go cannot use it: %w", err)
		}
		return nil, err
	}
	if signer, ok := key.(crypto.Signer); ok {
		return signer, nil
	}
	return nil, errors.New("the key cannot sign; it must be RSA, ECDSA or Ed25519")
}
