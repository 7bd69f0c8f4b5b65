package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// TestCertificates checks the files of each kind of key, and that a certificate verifies itself.
func TestCertificates(t *testing.T) {
	all, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]x509.PublicKeyAlgorithm{rsaKey: x509.RSA, ecdsaKey: x509.ECDSA} {
		dir := t.TempDir()
		if err := all[kind].write(dir); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "server.pem")
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.PublicKeyAlgorithm; got != want {
			t.Errorf("the key of kind %q is %v", kind, got)
		}
		pool := x509.NewCertPool()
		pool.AddCert(pair.Leaf)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestGreetSecure tests a client of a pmcd with TLS, of one without, and of one that refuses
// it.
func TestGreetSecure(t *testing.T) {
	all, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	c := all[ecdsaKey]
	own := []tls.Certificate{{Certificate: [][]byte{c.der}, PrivateKey: c.key}}
	cfg := &tls.Config{Certificates: own, ClientAuth: tls.RequireAnyClientCert}
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
				server := cfg.Clone()
				server.MaxVersion = tt.version
				if b, err := pdu.NewReader(tls.Server(theirs, server), 0).Next(); err == nil {
					_, typ, _ := pdu.Header(b)
					got <- typ
				}
			}()
			client := clientTLS()
			client.Certificates = own
			c, err := greet(ours, client, profile)
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
