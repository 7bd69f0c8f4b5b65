package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// TestCertificates checks the files of each kind of key, and that the authority has signed
// all certificates.
func TestCertificates(t *testing.T) {
	all, err := makeCertificates()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(all.authority)
	for kind, want := range map[string]x509.PublicKeyAlgorithm{rsaKey: x509.RSA, ecdsaKey: x509.ECDSA} {
		dir := t.TempDir()
		if err := all.write(dir, kind); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.PublicKeyAlgorithm; got != want {
			t.Errorf("the key of kind %q is %v", kind, got)
		}
		for _, c := range []*x509.Certificate{pair.Leaf, all.client.Leaf} {
			if _, err := c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				t.Errorf("%v: %v", c.Subject, err)
			}
		}
	}
	if err := all.write(t.TempDir(), "no such kind"); err == nil {
		t.Error("a certificate of no kind")
	}
}

// TestGreetSecure tests a client of a pmcd with TLS, of one without, and of one that refuses
// it.
func TestGreetSecure(t *testing.T) {
	all, err := makeCertificates()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*all.server[ecdsaKey]}, ClientAuth: tls.RequireAnyClientCert}
	for _, tt := range []struct {
		name          string
		greeting, ack pdu.Errno
		version       uint16
		ok            bool
	}{
		{"accepted", 0, 0, tls.VersionTLS13, true},
		{"TLS 1.2", 0, 0, tls.VersionTLS12, false},
		{"refused", pdu.ErrnoPermission, 0, 0, false},
		{"no TLS", 0, pdu.ErrnoNotConn, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			got := make(chan pdu.Type, 1)
			go func() {
				defer theirs.Close()
				defer close(got)
				theirs.Write(encode(&pdu.Error{Greeting: true, Code: tt.greeting, Info: pdu.GreetingInfo(0)}))
				r := pdu.NewReader(theirs, 0)
				if _, err := r.Next(); err != nil {
					return
				}
				theirs.Write(encode(&pdu.Error{Code: tt.ack}))
				if tt.ack != 0 {
					return
				}
				own := cfg.Clone()
				own.MaxVersion = tt.version
				if b, err := pdu.NewReader(tls.Server(theirs, own), 0).Next(); err == nil {
					_, typ, _ := pdu.Header(b)
					got <- typ
				}
			}()
			c, err := greetSecure(ours, clientTLS(all.client))
			if (err == nil) != tt.ok {
				t.Fatalf("%v", err)
			}
			if err == nil {
				if typ := <-got; typ != pdu.TypeProfile {
					t.Errorf("the first PDU is %v", typ)
				}
				ours.Close()
				c.Close()
			}
		})
	}
}
