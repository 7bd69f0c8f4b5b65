package conn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// newCertificate returns a certificate that has signed itself.
func newCertificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serverTLS returns a configuration with a certificate of its own.
var serverTLS = sync.OnceValue(func() *tls.Config {
	return &tls.Config{
		Certificates:                []tls.Certificate{newCertificate()},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}
})

// eachTLS runs a test with each kind of connection that uses TLS.
func eachTLS(t *testing.T, test func(t *testing.T, k kind)) {
	eachKind(t, func(t *testing.T, k kind) {
		if k.tls != 0 {
			test(t, k)
		}
	})
}

// shortTime is a limit that a test waits for.
const shortTime = 30 * time.Millisecond

// A heldConn is a net.Conn that can keep what is written, and send it at once.
type heldConn struct {
	net.Conn
	hold bool
	kept []byte
}

func (c *heldConn) Write(b []byte) (int, error) {
	if c.hold {
		c.kept = append(c.kept, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *heldConn) flush() (err error) {
	c.hold = false
	_, err = c.Conn.Write(c.kept)
	c.kept = nil
	return err
}

// noReader is a configuration whose first flight is more than sockets hold: crypto/tls does
// not look at certificates after the first.
var noReader = sync.OnceValue(func() *tls.Config {
	c := newCertificate()
	c.Certificate = append(c.Certificate, make([]byte, 12<<20))
	return &tls.Config{Certificates: []tls.Certificate{c}}
})

// A client has a limited time for the handshake, wherever it stops.
func TestHandshakeDeadline(t *testing.T) {
	const all = 1 << 20
	tests := []struct {
		name   string
		sent   int // bytes of a ClientHello
		server func() *tls.Config
	}{
		{"nothing", 0, serverTLS},
		{"a byte", 1, serverTLS},
		{"half a ClientHello", 100, serverTLS},
		{"does not reply", all, serverTLS},
		{"does not read", all, noReader},
	}
	eachTLS(t, func(t *testing.T, k kind) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				cfg := tt.server()
				dialed := make(chan struct{}) // a connection that is reset before is an error of Dial
				h := newHarness(t, k, 100, func(h *harness) {
					h.atOnce = true
					h.tls.Timeout = func() time.Duration {
						<-dialed
						return shortTime
					}
					h.serverTLS = func(int) *tls.Config { return cfg }
				})
				p := h.dialPlain()
				hello := clientHello(&heldConn{Conn: p.conn, hold: true})
				if _, err := p.conn.Write(hello[:min(tt.sent, len(hello))]); err != nil {
					t.Fatal(err)
				}
				close(dialed)
				<-p.s.ended
				if !errors.Is(p.s.err, os.ErrDeadlineExceeded) {
					t.Errorf("ended with %v, want a timeout", p.s.err)
				}
				if n := h.tls.handshakes.limiter().Used(); n != 0 {
					t.Errorf("%d handshakes are computed", n)
				}
			})
		}
	})
}

// clientHello writes the first message of a client to c, which keeps it.
func clientHello(c *heldConn) []byte {
	quit := &quitConn{heldConn: c}
	tls.Client(quit, &tls.Config{InsecureSkipVerify: true}).Handshake()
	return c.kept
}

// A quitConn has no input.
type quitConn struct{ *heldConn }

func (quitConn) Read([]byte) (int, error) { return 0, io.EOF }

// The handshake of a client that does not read is not counted, so others finish theirs.
func TestHandshakeThatDoesNotRead(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		large := noReader()
		stalled := new(handshakes).most()
		h := newHarness(t, k, 100, func(h *harness) {
			h.atOnce = true
			h.serverTLS = func(n int) *tls.Config {
				if n <= stalled {
					return large
				}
				return serverTLS()
			}
		})
		var peers []*peer
		for i := range stalled {
			p := h.dialPlain()
			testutil.Eventually(t, "a handshake", func() bool { return int(h.secures.Load()) == i+1 })
			if _, err := p.conn.Write(clientHello(&heldConn{Conn: p.conn, hold: true})); err != nil {
				t.Fatal(err)
			}
			peers = append(peers, p)
			// The first byte of its flight is there: the handshake was computed.
			if _, err := io.ReadFull(p.conn, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		h.dial().ask("xy")
		for _, p := range peers {
			select {
			case <-p.s.ended:
				t.Errorf("it has ended: %v", p.s.err)
			default:
			}
			p.s.c.Abort()
			<-p.s.ended
		}
	})
}

// A client has a limited time for the rest of a record. The limit begins when the server
// has answered what came before.
func TestRecordDeadline(t *testing.T) {
	for _, before := range []string{"", "xy", "xy-", "a+b"} {
		eachTLS(t, func(t *testing.T, k kind) {
			var short atomic.Bool
			h := newHarness(t, k, 100, func(h *harness) {
				h.tls.Timeout = func() time.Duration {
					if short.Load() {
						return shortTime
					}
					return time.Minute
				}
			})
			p := h.dialPlain()
			held := &heldConn{Conn: p.conn}
			p.conn = held
			if err := p.secure(); err != nil {
				t.Fatal(err)
			}
			<-p.s.secured
			short.Store(true)
			held.hold = true
			if before != "" {
				p.conn.Write([]byte(before))
			}
			complete := len(held.kept)
			p.conn.Write(make([]byte, 1000))
			held.kept = held.kept[:complete+500]
			if err := held.flush(); err != nil {
				t.Fatal(err)
			}
			p.expect(before)
			if strings.HasSuffix(before, "-") {
				p.expect(".")
			}
			<-p.s.ended
			if !errors.Is(p.s.err, os.ErrDeadlineExceeded) {
				t.Errorf("%q: ended with %v, want a timeout", before, p.s.err)
			}
		})
	}
}

// Records that arrive together are all read, without another byte.
func TestRecordsInOneSegment(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		for _, size := range []int{2, 30, 300, 5000} {
			h := newHarness(t, k, 100)
			p := h.dialPlain()
			held := &heldConn{Conn: p.conn}
			p.conn = held
			if err := p.secure(); err != nil {
				t.Fatal(err)
			}
			var all string
			held.hold = true
			for i := range 20 {
				text := strings.Repeat(string(rune('a'+i)), size)
				p.conn.Write([]byte(text))
				all += text
			}
			if err := held.flush(); err != nil {
				t.Fatal(err)
			}
			p.expect(all)
			h.parked(1)
			p.ask("xy")
			h.stop()
		}
	})
}

// A client that closes its side without close_notify gets its answer.
func TestHalfCloseWithoutNotify(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		p.conn.Write([]byte("xy"))
		p.conn.(*tls.Conn).NetConn().(interface{ CloseWrite() error }).CloseWrite()
		p.expect("xy")
		p.disconnected()
		if <-p.s.ended; p.s.err != io.EOF {
			t.Errorf("ended with %v", p.s.err)
		}
	})
}

// What is no TLS ends the connection: before the handshake without an alert, in and after
// it with one.
func TestNoTLS(t *testing.T) {
	pdu := []byte{0, 0, 0, 20, 0, 0, 0x70, 0x0c, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	junk := bytes.Repeat([]byte{0xa5}, 300)
	rec := func(kind byte, b []byte) []byte { return append([]byte{kind, 3, 3, 0, byte(len(b))}, b...) }
	tests := []struct {
		name  string
		after bool
		sent  []byte
		alert byte // 0: none
	}{
		{"a PDU", false, pdu, 0},
		{"an HTTP request", false, []byte("GET / HTTP/1.1\r\n\r\n"), 0},
		{"a handshake that is none", false, rec(22, []byte{0xa5, 0, 0, 4, 1, 2, 3, 4}), 10},
		{"a large handshake", false, rec(22, junk[:40]), 80},
		{"an alert", false, rec(21, []byte{2, 40}), 0},
		{"data", false, rec(23, junk[:40]), 0},
		{"a large record", false, []byte{22, 3, 1, 0xff, 0xff}, 22},
		{"SSL 2", false, append([]byte{0x80, 0x2e, 1, 0, 2}, junk[:40]...), 70},
		{"a PDU", true, pdu, 70},
		{"junk", true, junk, 70},
		{"a record of junk", true, rec(23, junk[:40]), 20},
		{"a large record", true, []byte{23, 3, 3, 0xff, 0xff}, 22},
	}
	eachTLS(t, func(t *testing.T, k kind) {
		for _, tt := range tests {
			h := newHarness(t, k, 100)
			p := h.dialPlain()
			raw := p.conn
			if tt.after {
				if err := p.secure(); err != nil {
					t.Fatal(err)
				}
				<-p.s.secured
			}
			if _, err := raw.Write(tt.sent); err != nil {
				t.Fatal(err)
			}
			if !tt.after {
				raw.(interface{ CloseWrite() error }).CloseWrite()
				got, err := io.ReadAll(raw)
				want := []byte(nil)
				if tt.alert != 0 {
					want = []byte{21, 3, 1, 0, 2, 2, tt.alert}
				}
				if len(got) > 2 {
					got[2] = 1 // any version
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: read % x, %v; want % x", tt.name, got, err, want)
				}
			} else if _, err := p.conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: read a byte", tt.name)
			} else if alert := tls.AlertError(0); errors.As(err, &alert) && byte(alert) != tt.alert {
				t.Errorf("%s: %v", tt.name, err)
			}
			if <-p.s.ended; p.s.err == nil || errors.Is(p.s.err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: ended with %v", tt.name, p.s.err)
			}
			if len(p.s.got) > 0 {
				t.Errorf("%s: the session has read %q", tt.name, p.s.got)
			}
			h.stop()
		}
	})
}

// The client reads the alert of a handshake that fails, although it has sent more.
func TestAlertIsDelivered(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		for range 50 {
			p := h.dialPlain()
			held := &heldConn{Conn: p.conn, hold: true}
			tls.Client(&quitConn{held}, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}).Handshake()
			held.kept = append(held.kept, make([]byte, 20_000)...)
			if err := held.flush(); err != nil {
				t.Fatal(err)
			}
			alert := make([]byte, 7)
			if n, err := io.ReadFull(p.conn, alert); err != nil || alert[0] != 21 || alert[6] != 70 {
				t.Fatalf("read % x, %v; want an alert, protocol version", alert[:n], err)
			}
			p.conn.Close()
			<-p.s.ended
		}
	})
}

// A reply that is not read counts once, whatever its records, and with the memory for a record.
func TestUnreadSecureReply(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		p.ask("x*")
		testutil.Eventually(t, "a slow reply", func() bool { return h.unread.Status().Used > 2 }) // the first one is "x*"
		for range 100 {
			if n := h.unread.Status().Used; n != largeReply+maxSealed {
				t.Fatalf("%d bytes are not read, want %d", n, largeReply+maxSealed)
			}
			if _, err := io.ReadFull(p.conn, make([]byte, 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(p.conn, make([]byte, largeReply-100*10_000)); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, "all is read", func() bool { return h.unread.Status().Used == 0 })
		p.ask("xy")
	})
}
