package tls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// alert returns the number of the alert that a client gets in clear text after it has sent
// something in place of a ClientHello; -1 if there is none.
func alert(t *testing.T, d *peer.Daemon, sent []byte) int {
	t.Helper()
	conn := prelude(t, d)
	defer conn.Close()
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 7)
	n, err := io.ReadFull(conn, b) // C pmcd may leave the connection open after that
	if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		return -1
	}
	if err != nil || b[0] != 21 || b[5] != 2 {
		t.Fatalf("%s: read % x, %v; want an alert", d.Path, b[:n], err)
	}
	return int(b[6])
}

// TestAlerts compares the alerts that clients get whose input is no handshake.
func TestAlerts(t *testing.T) {
	p := start(t, newAuthority(t))
	record := func(kind byte, b ...byte) []byte { return append([]byte{kind, 3, 3, 0, byte(len(b))}, b...) }
	message := func(kind byte) []byte { return append([]byte{kind, 0, 0, 36}, make([]byte, 36)...) }
	for _, tt := range []struct {
		name    string
		sent    []byte
		c, ours int
	}{
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), -1, -1},
		{"a handshake that is none", record(22, 0xa5, 0, 0, 4, 1, 2, 3, 4), 10, 10},
		{"a bad ClientHello", record(22, message(1)...), 50, 50},
		{"a ServerHello", record(22, message(2)...), 10, 50},
		{"data", record(23, make([]byte, 40)...), 10, -1},
		{"a large record", []byte{22, 3, 1, 0xff, 0xff, 1}, 22, 22},
	} {
		if c, ours := alert(t, p.C, tt.sent), alert(t, p.Ours, tt.sent); c != tt.c || ours != tt.ours {
			t.Errorf("%s: alerts %d of C pmcd and %d of ours, want %d and %d", tt.name, c, ours, tt.c, tt.ours)
		}
	}
	served(t, p.C)
	served(t, p.Ours)
}

// TestHandshakeAlerts compares the alerts of handshakes that pmcd refuses.
func TestHandshakeAlerts(t *testing.T) {
	certs := newAuthority(t)
	p, required := start(t, certs), start(t, certs, "-Q")
	certs.issue(t, "other", "rsa:2048", "", "-CA ca2.crt -CAkey ca2.key -days 2")
	certs.issue(t, "expired", "rsa:2048", "", "-CA ca.crt -CAkey ca.key -days -1")
	certs.issue(t, "ns-server", "rsa:2048", "nsCertType=server\n")
	v12, v13 := only(tls.VersionTLS12), only(tls.VersionTLS13)
	old := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	cipher := only(tls.VersionTLS12)
	cipher.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} // the key is RSA
	for _, tt := range []struct {
		name, cert string
		pair       *peer.Pair
		cfg        *tls.Config
		c, ours    string // ours is "" if it is the same
	}{
		{"version", "none", p, old, "protocol version not supported", ""},
		{"cipher", "none", p, cipher, "handshake failure", ""},
		{"no certificate", "none", required, v12, "handshake failure", ""},
		{"no certificate", "none", required, v13, "certificate required", ""},
		{"expired", "expired", p, v12, "expired certificate", ""},
		{"expired", "expired", p, v13, "expired certificate", ""},
		{"another authority", "other", p, v12, "unknown certificate authority", ""},
		{"another authority", "other", p, v13, "unknown certificate authority", ""},
		{"for servers", "ns-server", p, v12, "unsupported certificate", "bad certificate"},
		{"for servers", "ns-server", p, v13, "unsupported certificate", "bad certificate"},
	} {
		t.Run(fmt.Sprint(tt.name, " ", tls.VersionName(tt.cfg.MaxVersion)), func(t *testing.T) {
			if tt.ours == "" {
				tt.ours = tt.c
			}
			// With TLS 1.3, C pmcd resets the connection, and the client may lose the alert.
			c := verdict(t, tt.pair.C, certs, tt.cert, tt.cfg)
			lost := tt.cfg == v13 && (strings.Contains(c, "connection reset") || strings.Contains(c, "broken pipe"))
			if c != "remote error: tls: "+tt.c && !lost {
				t.Errorf("C pmcd: %s, want %s", c, tt.c)
			}
			if ours := verdict(t, tt.pair.Ours, certs, tt.cert, tt.cfg); ours != "remote error: tls: "+tt.ours {
				t.Errorf("ours: %s, want %s", ours, tt.ours)
			}
		})
	}
}
