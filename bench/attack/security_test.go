package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// serverTLS returns the configuration of a TLS server with a certificate of its own.
func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// begun is how a connection of Handshakes ended.
type begun struct {
	complete bool // the TLS handshake
	input    int  // bytes after CREDS, if it is not
}

// handshakes is a pmcd with TLS for one connection. It ends after the handshake, or when the
// client disconnects.
func handshakes(conn net.Conn, cfg *tls.Config) (b begun, err error) {
	defer conn.Close()
	if _, err := conn.Write(Encode(&pdu.Error{Greeting: true, Info: pdu.GreetingInfo(0)})); err != nil {
		return b, err
	}
	creds := make([]byte, len(credsWith(0)))
	if _, err := io.ReadFull(conn, creds); err != nil {
		return b, err
	}
	var m pdu.Creds
	if _, err := pdu.ParseInto(creds, &m); err != nil || m.Creds[0].Flags() != pdu.FeatureSecure|pdu.FeatureSecureAck {
		return b, pdu.ErrnoIPC
	}
	if _, err := conn.Write(Encode(&pdu.Error{})); err != nil {
		return b, err
	}
	seen := &seenConn{Conn: conn}
	b.complete = tls.Server(seen, cfg).Handshake() == nil
	b.input = seen.n
	return b, nil
}

// A seenConn counts what is read.
type seenConn struct {
	net.Conn
	n int
}

func (c *seenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	return n, err
}

// TestHandshakes checks which of four connections complete a TLS handshake, and how much
// the others send.
func TestHandshakes(t *testing.T) {
	cfg := serverTLS(t)
	hello := len(clientHello())
	if b := clientHello(); b[0] != 22 || int(b[3])<<8|int(b[4]) != hello-5 {
		t.Fatalf("no record of a handshake: % x", b)
	}
	want := []begun{{complete: true}, {input: hello / 2}, {complete: true}, {input: hello}}
	for i, w := range want {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		r := Start(ctx, Attack{
			Conns: 1, Retry: time.Nanosecond,
			Script: func(int) Script {
				s := Handshakes()(i)
				s.Hold = min(s.Hold, time.Nanosecond)
				return s
			},
			Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp4", l.Addr().String()) },
		})
		for range 2 { // it comes again
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got, err := handshakes(conn, cfg)
			if w.complete {
				w.input = got.input
			}
			if err != nil || got != w {
				t.Errorf("connection %d: %+v, %v; want %+v", i, got, err, w)
			}
		}
		<-r.Ready()
		cancel()
		l.Close()
		<-r.Done()
		if c := r.Counts(); c.Begun < 2 || w.complete != (c.Replies > 0) || c.Sent < int64(w.input) {
			t.Errorf("connection %d: %+v", i, c)
		}
	}
}

// TestLogins checks that each login is of another user.
func TestLogins(t *testing.T) {
	users := map[string]bool{}
	script := Logins()
	for i := range 4 {
		s := script(i)
		r := pdu.NewReader(io.MultiReader(bytes.NewReader(s.Once), bytes.NewReader(bytes.Join(s.Repeat, nil))), maxPDU)
		for n := 0; ; n++ {
			b, err := r.Next()
			if err == io.EOF {
				if want := []int{2 * loginNames, 1}[i%2]; n != want {
					t.Errorf("connection %d: %d PDUs, want %d", i, n, want)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var creds pdu.Creds
			var attr pdu.Attr
			if n%2 == 0 {
				if _, err := pdu.ParseInto(b, &creds); err != nil || creds.Creds[0].Flags() != pdu.FeatureAuth {
					t.Errorf("connection %d, PDU %d: %v, %+v", i, n, err, creds)
				}
				continue
			}
			if _, err := pdu.ParseInto(b, &attr); err != nil || strings.Count(string(attr.Value), "\x00") != 3 || users[string(attr.Value)] {
				t.Errorf("connection %d, PDU %d: %v, %q", i, n, err, attr.Value)
			}
			users[string(attr.Value)] = true
		}
	}
}
