package tlspolicy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
)

// maxServerName is the length of the longest name of a server, in bytes, that a client may
// send. It is that of a name in DNS. Package tls keeps the name, of up to 64 KiB, as long as
// the client is connected.
const maxServerName = 255

// verifyConnection checks what a client has sent in a handshake. It is a VerifyConnection of
// tls.Config.
func verifyConnection(state tls.ConnectionState) error {
	if n := len(state.ServerName); n > maxServerName {
		return fmt.Errorf("the name of the server has %d bytes, and may have %d", n, maxServerName)
	}
	return verifyClient(state)
}

// verifyClient checks the certificate of a client, if it has shown one, after package tls
// has found that an authority of the pool has issued it for clients, and that it is valid
// now. OpenSSL makes the following checks, too.
func verifyClient(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil // package tls has refused this if a certificate is required
	}
	if err := checkPurpose(state.PeerCertificates[0]); err != nil {
		return fmt.Errorf("the client's certificate%s: %w", subjectOf(state.PeerCertificates[0]), err)
	}
	var err error
	for _, chain := range state.VerifiedChains {
		if err = checkKeys(chain); err == nil {
			return nil
		}
	}
	return err
}

// checkKeys returns an error if a key of the chain is too weak.
func checkKeys(chain []*x509.Certificate) error {
	for _, c := range chain {
		if err := checkKey(c.PublicKey); err != nil {
			return fmt.Errorf("the client's chain%s: %w", subjectOf(c), err)
		}
	}
	return nil
}

// nsCertType is Netscape's extension for the purpose of a certificate. PCP's QA has
// certificates with it.
var nsCertType = asn1.ObjectIdentifier{2, 16, 840, 1, 113730, 1, 1}

// checkPurpose returns an error if c may not be the certificate of a client of TLS. Package
// tls has checked extended key usages.
func checkPurpose(c *x509.Certificate) error {
	const signs = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyAgreement
	if c.KeyUsage != 0 && c.KeyUsage&signs == 0 {
		return errors.New("its key usage does not allow digital signatures")
	}
	for _, ext := range c.Extensions {
		if !ext.Id.Equal(nsCertType) {
			continue
		}
		const client = 0 // bit
		var types asn1.BitString
		if rest, err := asn1.Unmarshal(ext.Value, &types); err != nil || len(rest) > 0 || types.At(client) == 0 {
			return errors.New("its Netscape certificate type (nsCertType) does not have client")
		}
	}
	return nil
}
