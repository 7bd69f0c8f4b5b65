package pmapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// certificate returns a certificate that is its own CA.
func certificate(t *testing.T, c x509.Certificate) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	c.IsCA, c.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

func TestTLS(t *testing.T) {
	f := startFake(t)
	cert, pool := certificate(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	other, otherPool := certificate(t, x509.Certificate{DNSNames: []string{"pmcd.example"}})
	f.features |= pdu.FeatureSecure | pdu.FeatureSecureAck
	f.tls = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: otherPool}
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	for _, tt := range []struct {
		name string
		opts Options
		as   any // what the error is, or nil
	}{
		{"no CA", Options{}, &unknown},
		{"another CA", Options{TLS: &tls.Config{RootCAs: otherPool}}, &unknown},
		{"any certificate", Options{AnyCertificate: true}, nil},
		{"the CA", Options{TLS: &tls.Config{RootCAs: pool}}, nil},
		{"another name", Options{TLS: &tls.Config{RootCAs: pool, ServerName: "pmcd.example"}}, &wrongName},
		{"another name, any certificate", Options{AnyCertificate: true, TLS: &tls.Config{ServerName: "pmcd.example"}}, nil},
		{"a certificate of the client", Options{TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{other}}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Dial(testContext(t), "pcps://"+f.host(), tt.opts)
			if tt.as != nil {
				if !errors.As(err, tt.as) {
					t.Errorf("%v, want a %T", err, tt.as)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var r Result
			if err := c.Fetch(testContext(t), []pdu.PMID{countID}, &r); err != nil {
				t.Error(err)
			}
			cs := c.conn.nc.(*tls.Conn).ConnectionState()
			if cs.Version < tls.VersionTLS12 || len(cs.PeerCertificates) == 0 {
				t.Errorf("TLS %x", cs.Version)
			}
		})
	}

	f.setAccept(func(s *session) bool {
		s.greet()
		s.recv()
		s.send(&pdu.Error{Code: pdu.ErrnoNotConn})
		return true
	})
	if _, err := Dial(testContext(t), "pcps://"+f.host(), Options{}); !errors.Is(err, pdu.ErrnoNotConn) {
		t.Errorf("TLS refused: %v", err)
	}
	// What others can have put into the stream before TLS must not count as pmcd's.
	f.setAccept(func(s *session) bool {
		s.greet()
		s.recv()
		s.send(&pdu.Error{}, &pdu.PMNSIDs{PMIDs: []pdu.PMID{1, 2}})
		s.startTLS()
		return true
	})
	if _, err := Dial(testContext(t), "pcps://"+f.host(), Options{AnyCertificate: true}); !errors.Is(err, ErrReply) {
		t.Errorf("clear text before TLS: %v", err)
	}
}

// A certificate that cannot be had is an error if pmcd does not accept the client without one,
// and only then.
func TestNoClientCertificate(t *testing.T) {
	f := startFake(t)
	cert, pool := certificate(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	own, ownPool := certificate(t, x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	f.features |= pdu.FeatureSecure | pdu.FeatureSecureAck
	missing := errors.New("no such key")
	for _, tt := range []struct {
		name string
		asks tls.ClientAuthType
		max  uint16
		err  error // of GetClientCertificate
		want error // of Dial
	}{
		{"not asked", tls.NoClientCert, 0, missing, nil},
		{"asked", tls.VerifyClientCertIfGiven, 0, missing, nil},
		{"asked, and shown", tls.VerifyClientCertIfGiven, 0, nil, nil},
		{"required", tls.RequireAndVerifyClientCert, 0, missing, missing},
		{"required, TLS 1.2", tls.RequireAndVerifyClientCert, tls.VersionTLS12, missing, missing},
		{"required, and shown", tls.RequireAndVerifyClientCert, 0, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.tls = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tt.asks, ClientCAs: ownPool, MaxVersion: tt.max}
			c, err := Dial(testContext(t), "pcps://"+f.host(), Options{TLS: &tls.Config{
				RootCAs:              pool,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, tt.err },
			}})
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := c.Lookup(testContext(t), "fake.count"); err != nil {
				t.Error(err)
			}
		})
	}
	// An answer has nothing to do with the certificate.
	f.tls = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	f.setHandle(func(s *session, m pdu.Message) bool {
		s.send(&pdu.Error{Code: pdu.ErrnoPermission})
		return true
	})
	_, err := Dial(testContext(t), "pcps://"+f.host(), Options{TLS: &tls.Config{
		RootCAs:              pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, missing },
	}})
	if !errors.Is(err, pdu.ErrnoPermission) || errors.Is(err, missing) {
		t.Errorf("refused: %v", err)
	}
}
