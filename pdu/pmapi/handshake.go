package pmapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// isAnswer reports whether err is an answer of pmcd or something to be said about it, and
// not a failure to get one. Then other ports of the host are not tried.
func isAnswer(err error) bool {
	var code pdu.Errno
	return errors.As(err, &code) || errors.Is(err, ErrNoMethod)
}

// handshake makes a new connection ready for requests: greeting, CREDS, TLS, login and
// container, in this order.
func (n *conn) handshake(ctx context.Context, e endpoint, s Spec, o *Options) error {
	if err := n.greeting(); err != nil {
		return err
	}
	flags, err := n.request(e, s, o)
	if err != nil {
		return err
	}
	if err := n.send(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(flags)}}); err != nil {
		return err
	}
	if flags&pdu.FeatureSecure != 0 {
		if err := n.startTLS(ctx, e, flags, o); err != nil {
			return err
		}
	}
	if flags&pdu.FeatureAuth != 0 || flags&pdu.FeatureCredsReqd != 0 && !e.unix() {
		if err := n.logIn(s); err != nil {
			return fmt.Errorf("login: %w", err)
		}
	}
	if flags&pdu.FeatureContainer != 0 {
		if err := n.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte(s.Container)}); err != nil {
			return err
		}
	}
	return n.accepted()
}

func (n *conn) greeting() error {
	b, err := n.r.Next()
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	var m pdu.Error
	if _, err := pdu.ParseInto(b, &m); err != nil || !m.Greeting {
		return badReply("not the greeting of a pmcd")
	}
	if m.Code < 0 {
		return pdu.FromGreetingCode(m.Code)
	}
	if v := m.Info >> 24 & 0x7f; v != pdu.ProtocolVersion {
		return badReply("protocol version %d", v)
	}
	n.features = pdu.Features(m.Info)
	return nil
}

// request returns the features that s needs, or an error if pmcd does not have them.
func (n *conn) request(e endpoint, s Spec, o *Options) (flags pdu.Features, err error) {
	need := func(f pdu.Features, what string) {
		if n.features&f == 0 && err == nil {
			err = fmt.Errorf("pmcd does not offer %s: %w", what, pdu.ErrnoEOPNOTSUPP)
		}
		flags |= f
	}
	switch secure := s.secure(os.LookupEnv); {
	case secure == SecureEnforce:
		need(pdu.FeatureSecure, "TLS")
	case secure == SecureRelaxed:
		flags |= n.features & pdu.FeatureSecure
	}
	if flags&pdu.FeatureSecure != 0 {
		flags |= n.features & pdu.FeatureSecureAck
	}
	if s.User != "" || s.Method != "" {
		need(pdu.FeatureAuth, "logins")
	}
	if !e.unix() {
		flags |= n.features & pdu.FeatureCredsReqd
	}
	if s.Container != "" {
		need(pdu.FeatureContainer, "containers")
	}
	// pmcd needs no certificate of its own host. Whether the client is there, pmcd knows
	// better: without a certificate it refuses what it has to.
	if flags&pdu.FeatureSecure != 0 && !e.unix() {
		flags |= n.features & pdu.FeatureCertReqd
	}
	return flags, err
}

func (n *conn) startTLS(ctx context.Context, e endpoint, flags pdu.Features, o *Options) error {
	if flags&pdu.FeatureSecureAck != 0 {
		_, typ, err := n.recv()
		switch {
		case err != nil:
			return fmt.Errorf("TLS: %w", err)
		case typ != pdu.TypeError:
			return badReply("%v to CREDS", typ)
		}
	}
	if n.r.Buffered() > 0 {
		return badReply("%d bytes in clear text before TLS", n.r.Buffered())
	}
	config := o.tlsConfig(e.host)
	if get := config.GetClientCertificate; get != nil {
		config.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := get(r)
			if err != nil {
				cert, n.noCert = new(tls.Certificate), err
			}
			return cert, nil
		}
	}
	tc := tls.Client(n.nc, config)
	if err := tc.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	n.use(tc, o.maxReply())
	n.private = true
	// C pmcd reads one PDU of a TLS record and does not look at the next one before more
	// bytes arrive.
	n.oneByOne = true
	return nil
}

// tlsConfig returns the configuration of TLS for a host.
func (o *Options) tlsConfig(host string) *tls.Config {
	c := &tls.Config{}
	if o.TLS != nil {
		c = o.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = withoutZone(host)
	}
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	if o.AnyCertificate {
		c.InsecureSkipVerify = true
		c.VerifyPeerCertificate, c.VerifyConnection = nil, nil
	}
	return c
}

// withoutZone returns an IPv6 address without its zone, which is not in certificates.
func withoutZone(host string) string {
	if strings.Contains(host, ":") {
		host, _, _ = strings.Cut(host, "%")
	}
	return host
}
