package tlspolicy

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// OpenSSL, with which C pmcd reads these files, takes more than package x509 does. A host with
// such files must start after the swap.

// A foreignError is about a key or a certificate that OpenSSL may be able to use, and Go is not.
type foreignError struct{ error }

func (e foreignError) Unwrap() error { return e.error }

func foreign(format string, args ...any) error { return foreignError{fmt.Errorf(format, args...)} }

// isForeign reports whether err is a foreignError, or wraps one.
func isForeign(err error) bool { return errors.As(err, new(foreignError)) }

// nextBlock returns the first PEM block of text, or nil, and what follows it.
func nextBlock(text []byte) (block *pem.Block, rest []byte) {
	const bom = "\uFEFF" // of editors of Windows
	if len(text) >= len(bom) && string(text[:len(bom)]) == bom {
		text = text[len(bom):]
	}
	return pem.Decode(text)
}

// A certBlock is a certificate of a PEM file.
type certBlock struct {
	der     []byte
	refused bool // OpenSSL is told not to trust it as an authority for clients
}

// certificateBlocks returns the certificates of a PEM file. As OpenSSL does for authorities, it
// passes over what follows a certificate in its block.
func certificateBlocks(text []byte) (list []certBlock) {
	const trusted = "TRUSTED CERTIFICATE"
	for {
		var block *pem.Block
		if block, text = nextBlock(text); block == nil {
			return list
		}
		switch block.Type {
		case "CERTIFICATE", "X509 CERTIFICATE", trusted:
			b := certBlock{der: block.Bytes}
			var cert asn1.RawValue
			if rest, err := asn1.Unmarshal(block.Bytes, &cert); err == nil {
				b = certBlock{cert.FullBytes, block.Type == trusted && refusesClients(rest)}
			}
			list = append(list, b)
		}
	}
}

var (
	clientAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	anyUsage   = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

// refusesClients reports whether OpenSSL does not trust an authority for clients, by what follows
// its certificate (openssl x509 -addtrust and -addreject).
func refusesClients(b []byte) bool {
	var uses struct {
		Trusted []asn1.ObjectIdentifier `asn1:"optional"`
		Refused []asn1.ObjectIdentifier `asn1:"optional,tag:0"`
	}
	if len(b) == 0 {
		return false
	}
	_, err := asn1.Unmarshal(b, &uses)
	has := func(list []asn1.ObjectIdentifier) bool {
		return slices.ContainsFunc(list, func(id asn1.ObjectIdentifier) bool { return id.Equal(clientAuth) || id.Equal(anyUsage) })
	}
	return err != nil || has(uses.Refused) || len(uses.Trusted) > 0 && !has(uses.Trusted)
}

// An attribute is a part of a name. encoding/asn1 knows a set by the name of its type.
type (
	attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	attributeSET []attribute
)

// ownCertificate parses a certificate that pmcd sends to clients. Of one that package x509 does
// not parse, it returns what pmcd itself needs, and a foreignError: clients get it as it is, and
// verify it by their own rules.
func ownCertificate(der []byte) (*x509.Certificate, error) {
	cert, why := x509.ParseCertificate(der)
	if why == nil {
		return cert, nil
	}
	var c struct {
		Content struct {
			Version      int `asn1:"optional,explicit,tag:0"`
			SerialNumber asn1.RawValue
			Algorithm    asn1.RawValue
			Issuer       asn1.RawValue
			Validity     struct{ NotBefore, NotAfter time.Time }
			Subject      asn1.RawValue
			PublicKey    asn1.RawValue
			// What follows is not needed, and encoding/asn1 passes over it.
		}
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	var subject []attributeSET
	if rest, err := asn1.Unmarshal(der, &c); err != nil || len(rest) > 0 {
		return nil, why
	}
	if _, err := asn1.Unmarshal(c.Content.Subject.FullBytes, &subject); err != nil {
		return nil, why
	}
	var name pkix.RDNSequence
	for _, set := range subject {
		var attributes pkix.RelativeDistinguishedNameSET
		for _, a := range set {
			attributes = append(attributes, pkix.AttributeTypeAndValue{Type: a.Type, Value: printable(string(a.Value.Bytes))})
		}
		name = append(name, attributes)
	}
	cert = &x509.Certificate{
		Raw: der, RawIssuer: c.Content.Issuer.FullBytes, RawSubject: c.Content.Subject.FullBytes,
		NotBefore: c.Content.Validity.NotBefore, NotAfter: c.Content.Validity.NotAfter,
	}
	cert.Subject.FillFromRDNSequence(&name)
	// Without a key that Go knows, checkKey fails.
	cert.PublicKey, _ = x509.ParsePKIXPublicKey(c.Content.PublicKey.FullBytes)
	return cert, foreignError{why}
}
