package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// withTLS is a configuration with a tls.conf. The certificate is also the only authority
// for clients.
func withTLS(t *testing.T, certRequired bool) func(*Config) {
	return func(c *Config) {
		dir := filepath.Dir(c.Files.Conf)
		if strings.Contains(dir, "#") { // of a fuzz test: a comment in tls.conf
			var err error
			if dir, err = os.MkdirTemp("", "tls"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
		}
		testutil.WriteCertificate(t, dir, "x", time.Now().AddDate(0, 6, 0))
		c.Files.TLS = filepath.Join(dir, "tls.conf")
		c.Security.CertRequired = certRequired
		text := tlsText(dir, "x") + "tls-ca-cert-file = " + dir + "/x.crt\n"
		if err := os.WriteFile(c.Files.TLS, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const secureFlags = pdu.FeatureSecure | pdu.FeatureSecureAck

// A prefixConn is a net.Conn whose first write has a prefix, and in whose input is the
// acknowledgement of CREDS before anything else.
type prefixConn struct {
	net.Conn
	prefix []byte
	ack    []byte // that is expected
	got    []byte // instead of it
}

func (c *prefixConn) Write(b []byte) (int, error) {
	all := append(c.prefix, b...)
	c.prefix = nil
	n, err := c.Conn.Write(all)
	return max(0, n-len(all)+len(b)), err
}

func (c *prefixConn) Read(b []byte) (int, error) {
	if len(c.ack) > 0 {
		got := make([]byte, len(c.ack))
		if _, err := io.ReadFull(c.Conn, got); err != nil {
			return 0, err
		}
		if !bytes.Equal(got, c.ack) {
			c.got = got
			return 0, errors.New("no acknowledgement")
		}
		c.ack = nil
	}
	return c.Conn.Read(b)
}

// secure makes TLS on the connection of c, for which pmcd has read CREDS, or reads it
// now with the ClientHello. It returns the error of the handshake.
func (c *client) secure(creds []byte, ack []byte, cfg *tls.Config) error {
	cfg.InsecureSkipVerify = true
	s := tls.Client(&prefixConn{Conn: c.Conn, prefix: creds, ack: ack}, cfg)
	if err := s.Handshake(); err != nil {
		return err
	}
	c.Use(s)
	return nil
}

// good fails the test unless pmcd answers.
func (c *client) good() {
	c.t.Helper()
	if m, ok := c.do(&pdu.DescReq{PMID: id(240, 1)}).(*pdu.Desc); !ok || m.PMID != id(240, 1) {
		c.t.Errorf("got %+v", m)
	}
}

// credsPDU returns CREDS with flags.
func credsPDU(t *testing.T, flags pdu.Features) []byte {
	t.Helper()
	b, err := pdu.Append(nil, 7, pdutest.Creds(flags))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The ways in which a client can begin TLS. What is in clear text is as C pmcd and its
// clients have it.
func TestTLSBegins(t *testing.T) {
	r := newHarness(t, withTLS(t, false), nil)
	ack := capture(t, "s2c_error_secure_ack")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tt := range []struct {
			name     string
			creds    []byte
			ack      []byte
			together bool // CREDS and ClientHello
		}{
			{"captured", capture(t, "c2s_creds_secure"), ack, false},
			{"captured, together", capture(t, "c2s_creds_secure"), ack, true},
			{"no acknowledgement", credsPDU(t, pdu.FeatureSecure), nil, false},
			{"no acknowledgement, together", credsPDU(t, pdu.FeatureSecure), nil, true},
			{"a certificate is required", credsPDU(t, secureFlags|pdu.FeatureCertReqd), ack, false},
		} {
			for _, addr := range []string{"127.0.0.1", "unix"} {
				t.Run(tt.name+" "+tls.VersionName(version)+" "+addr, func(t *testing.T) {
					c := r.from(addr).in(t)
					greeting, err := pdu.Append(nil, 0, c.recv())
					if want := capture(t, "s2c_error_greeting_tls"); err != nil || !bytes.Equal(greeting[:16], want[:16]) {
						t.Errorf("greeting % x, %v; want % x", greeting, err, want)
					}
					creds := tt.creds
					if !tt.together {
						c.sendBytes(creds)
						creds = nil
					}
					if err := c.secure(creds, tt.ack, &tls.Config{MinVersion: version, MaxVersion: version}); err != nil {
						t.Fatal(err)
					}
					c.good()
					// Two PDUs in one record, one in two, and a second CREDS.
					b, _ := pdu.Append(nil, 7, &pdu.DescReq{PMID: id(240, 1)})
					c.sendBytes(append(bytes.Clone(b), b...))
					c.recv()
					c.recv()
					c.sendBytes(b[:9])
					c.sendBytes(b[9:])
					c.recv()
					c.sendBytes(credsPDU(t, secureFlags))
					if m := show(c.recv()); m != pdu.ErrnoIPC.Name() {
						t.Errorf("a second CREDS: %s", m)
					}
					c.good()
				})
			}
		}
	}
}

// A client that stops in the handshake, or in the middle of a PDU after it, is disconnected
// after RequestTimeout, and the log says where it has stopped. Meanwhile others are served:
// there are more handshakes than slots.
func TestTLSTimeouts(t *testing.T) {
	r := newHarness(t, withTLS(t, false), nil)
	begin := func() *client {
		c := r.connect("tcp", r.tcp)
		c.recv()
		c.sendBytes(credsPDU(t, secureFlags))
		return c
	}
	silent := make([]*client, 4*runtime.GOMAXPROCS(0)+4)
	for i := range silent {
		silent[i] = begin()
		silent[i].recv() // the acknowledgement: the handshake has begun
	}
	for range 20 {
		r.dial().good()
	}
	half := begin()
	if err := half.secure(nil, capture(t, "s2c_error_secure_ack"), new(tls.Config)); err != nil {
		t.Fatal(err)
	}
	half.good()
	r.timeout.Store(int64(50 * time.Millisecond))
	half.sendBytes(credsPDU(t, 0)[:10])
	late := begin()
	late.recv()
	for _, c := range []*client{half, late} {
		if n, err := c.Conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes, %v; want the end", n, err)
		}
	}
	r.awaitLogged(t, "TLS handshake: i/o timeout")
	r.awaitLogged(t, "pduread: timeout")
}

// Handshakes that fail of one host do not hide those of others in the log.
func TestTLSFailuresOfOthers(t *testing.T) {
	r := newHarness(t, withTLS(t, false), nil)
	fail := func(network, addr string) {
		c := r.connect(network, addr)
		c.recv()
		c.sendBytes(credsPDU(t, secureFlags))
		c.recv()
		c.sendBytes([]byte("GET / HTTP/1.1\r\n\r\n"))
		if n, err := c.Conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes, %v; want the end", n, err)
		}
	}
	for range 3 {
		fail("tcp", r.tcp)
	}
	fail("unix", r.unix)
	testutil.Eventually(t, "a line of each", func() bool {
		lines := r.logs.With("TLS handshake: ")
		return len(lines) == 2 && strings.Contains(lines[0].Message, "127.0.0.1") && strings.Contains(lines[1].Message, r.unix)
	})
}

// With -Q, clients that are not local must use TLS, and TLS needs a certificate of
// the client. Without one nothing but CREDS is served.
func TestTLSCertificateRequired(t *testing.T) {
	r := newHarness(t, withTLS(t, true), nil)
	r.dial() // the files are loaded before that
	var st pmcd.Status
	if (host{r.Daemon}).Status(&st); !st.Features.Secure || !st.Features.ClientCertRequired {
		t.Errorf("pmcd.feature.* is %+v", st.Features)
	}
	pair, err := tls.LoadX509KeyPair(r.dir+"/x.crt", r.dir+"/x.key")
	if err != nil {
		t.Fatal(err)
	}
	if pair.Leaf == nil {
		pair.Leaf, _ = x509.ParseCertificate(pair.Certificate[0])
	}
	ack := capture(t, "s2c_error_secure_ack")
	for _, addr := range []string{"127.0.0.1", "127.0.0.2", "unix"} {
		local := addr != "127.0.0.2"
		c := r.from(addr)
		c.recv()
		c.sendBytes(credsPDU(t, 0))
		if local {
			c.good()
		} else {
			for range 2 {
				if m := show(c.recv()); m != pdu.ErrnoNeedClientCert.Name() {
					t.Errorf("%s: CREDS without SECURE: %s", addr, m)
				}
				if m := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); m != pdu.ErrnoPermission.Name() {
					t.Errorf("%s: a request: %s", addr, m)
				}
				c.sendBytes(credsPDU(t, 0))
			}
			c.recv()
			c.sendBytes(credsPDU(t, secureFlags)) // the client thinks again
			if err := c.secure(nil, ack, &tls.Config{Certificates: []tls.Certificate{pair}}); err != nil {
				t.Fatal(err)
			}
			c.good()
		}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			c = r.from(addr)
			c.recv()
			err := c.secure(credsPDU(t, secureFlags), ack, &tls.Config{MinVersion: version, MaxVersion: version})
			if err == nil { // in TLS 1.3 the client's part is over before
				_, err = c.Conn.Read(make([]byte, 1))
			}
			want := map[uint16]string{tls.VersionTLS12: "handshake failure", tls.VersionTLS13: "certificate required"}[version]
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s, no certificate: %v", addr, tls.VersionName(version), err)
			}
			c = r.from(addr)
			c.recv()
			if err := c.secure(credsPDU(t, secureFlags), ack, &tls.Config{MinVersion: version, MaxVersion: version, Certificates: []tls.Certificate{pair}}); err != nil {
				t.Fatal(err)
			}
			c.good()
		}
	}
}

// A splitConn is a net.Conn that sends in pieces, with one byte changed.
type splitConn struct {
	net.Conn
	sizes []byte
	at    int  // the byte that is changed
	by    byte // how
}

func (c *splitConn) Write(b []byte) (int, error) {
	sent := bytes.Clone(b)
	if c.at >= 0 && c.at < len(b) {
		sent[c.at] ^= c.by
	}
	c.at -= len(b)
	for len(sent) > 0 {
		n := len(sent)
		if len(c.sizes) > 0 {
			n = min(n, 1+int(c.sizes[0]))
			c.sizes = c.sizes[1:]
		}
		if _, err := c.Conn.Write(sent[:n]); err != nil {
			return 0, err
		}
		sent = sent[n:]
	}
	return len(b), nil
}

// FuzzNegotiation begins a connection in any way, with its bytes in any pieces and one of
// them changed. A connection with no byte changed is served, and others are.
func FuzzNegotiation(f *testing.F) {
	f.Add(uint16(secureFlags), []byte{}, uint16(0), byte(0), []byte{})
	f.Add(uint16(pdu.FeatureSecure), []byte{4, 0, 30, 200, 1, 1}, uint16(0), byte(0), []byte{})
	f.Add(uint16(secureFlags|pdu.FeatureContainer), []byte{19, 50}, uint16(0), byte(0), []byte("name"))
	f.Add(uint16(secureFlags), []byte{}, uint16(25), byte(1), []byte{})
	f.Add(uint16(secureFlags|pdu.FeatureAuth), []byte{}, uint16(0), byte(0), []byte{})
	f.Add(uint16(secureFlags), []byte{}, uint16(1500), byte(0x80), []byte{})
	f.Fuzz(func(t *testing.T, bits uint16, sizes []byte, at uint16, by byte, container []byte) {
		r := newHarness(t, func(c *Config) {
			withTLS(t, false)(c)
			c.Agents.RequestTimeout = 2 * time.Second
		}, nil)
		c := r.connect("tcp", r.tcp)
		c.recv()
		c.Conn = &splitConn{c.Conn, sizes, int(at), by}
		flags := pdu.Features(bits)
		attr := []byte(nil)
		if flags&pdu.FeatureContainer != 0 {
			var err error
			if attr, err = pdu.Append(nil, 7, &pdu.Attr{Code: pdu.AttrContainer, Value: container}); err != nil {
				return // the name is too long
			}
		}
		const plain = pdu.FeatureSecureAck | pdu.FeatureAuth | pdu.FeatureCredsReqd | pdu.FeatureCertReqd | pdu.FeatureContainer
		var err error
		if flags&pdu.FeatureSecure != 0 && flags&^(plain|pdu.FeatureSecure) == 0 {
			var ack []byte
			if flags&pdu.FeatureSecureAck != 0 {
				ack = capture(t, "s2c_error_secure_ack")
			}
			err = c.secure(credsPDU(t, flags), ack, &tls.Config{})
		} else {
			_, err = c.Conn.Write(credsPDU(t, flags))
		}
		if err == nil {
			req, _ := pdu.Append(attr, 7, &pdu.DescReq{PMID: id(240, 1)})
			_, err = c.Conn.Write(req)
		}
		for err == nil {
			var b []byte
			if b, err = c.Receive(); err == nil {
				if _, typ, _ := pdu.Header(b); typ == pdu.TypeDesc {
					break
				}
				// An error for CREDS or ATTR, before the reply; or for the request, after
				// a byte was changed.
				if by != 0 {
					err = io.EOF
				}
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("flags %v: no end", flags)
		case err != nil && by == 0:
			t.Errorf("flags %v: %v", flags, err)
		}
		r.dial().good()
	})
}
