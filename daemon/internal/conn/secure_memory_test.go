package conn

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// maxIdle is how much memory C pmcd has for an idle TLS connection, in bytes.
const maxIdle = 24 << 10

// An idle connection with TLS has no more memory than C pmcd has for one, also if the client
// has asked something large, has a certificate, and has sent a large ClientHello.
func TestIdleMemory(t *testing.T) {
	for _, k := range kinds {
		if k.tls == 0 {
			continue
		}
		for _, withCert := range []bool{false, true} {
			cfg := serverTLS().Clone()
			client := &tls.Config{InsecureSkipVerify: true, MinVersion: k.tls, MaxVersion: k.tls}
			for range 20 { // crypto/tls does not look at them
				client.NextProtos = append(client.NextProtos, strings.Repeat("p", 255))
			}
			if withCert {
				cfg.ClientAuth = tls.RequireAnyClientCert
				client.Certificates = []tls.Certificate{newCertificate()}
			}
			h := newHarness(t, k, 100, func(h *harness) { h.serverTLS = func(int) *tls.Config { return cfg } })
			heap := func() int {
				runtime.GC()
				runtime.GC() // frees what is in pools
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int(m.HeapAlloc + m.StackInuse)
			}
			const many = 200
			var conns []net.Conn
			connect := func() {
				p := h.dialPlain()
				raw := p.conn
				secure := tls.Client(raw, client)
				p.conn = secure
				if err := secure.Handshake(); err != nil {
					t.Fatal(err)
				}
				p.ask(strings.Repeat("a large request", 333))
				conns = append(conns, raw) // of the client nothing else is left
			}
			connect()
			h.parked(1)
			before := heap()
			for range many {
				connect()
			}
			h.parked(many + 1)
			each := (heap() - before) / many
			t.Logf("%s, a client certificate: %t: %d bytes", k.name, withCert, each)
			if each > maxIdle {
				t.Errorf("%s, a client certificate: %t: an idle connection has %d bytes, want at most %d", k.name, withCert, each, maxIdle)
			}
			for _, c := range conns {
				c.Close()
			}
			h.stop()
		}
	}
}

// A recordWriter makes records as a client of TLS 1.3 after the handshake.
type recordWriter struct {
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

// newRecordWriter returns one for the keys in a log of keys (tls.Config.KeyLogWriter).
func newRecordWriter(t *testing.T, log string) *recordWriter {
	t.Helper()
	_, rest, ok := strings.Cut(log, "CLIENT_TRAFFIC_SECRET_0 ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		t.Fatalf("no key in %q", log)
	}
	secret, err := hex.DecodeString(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	w := &recordWriter{}
	w.setKey(t, secret)
	return w
}

func (w *recordWriter) setKey(t *testing.T, secret []byte) {
	t.Helper()
	derive := func(label string, n int) []byte {
		label = "tls13 " + label
		info := string([]byte{0, byte(n), byte(len(label))}) + label + "\x00"
		b, err := hkdf.Expand(sha256.New, secret, info, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	block, err := aes.NewCipher(derive("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	if w.aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	w.iv, w.seq = derive("iv", 12), 0
}

// record returns a record.
func (w *recordWriter) record(kind byte, b []byte) []byte {
	nonce := append([]byte(nil), w.iv...)
	var seq [12]byte
	binary.BigEndian.PutUint64(seq[4:], w.seq)
	for i := range nonce {
		nonce[i] ^= seq[i]
	}
	w.seq++
	inner := append(append([]byte(nil), b...), kind)
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(inner)+w.aead.Overhead()))
	return w.aead.Seal(head, nonce, inner, head)
}

// dialRecords returns a client, its connection below TLS, and what makes its records.
func dialRecords(t *testing.T, h *harness) (p *peer, raw net.Conn, w *recordWriter) {
	t.Helper()
	p = h.dialPlain()
	raw = p.conn
	var log strings.Builder
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &log})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	<-p.s.secured
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("another cipher suite")
	}
	p.conn = c
	return p, raw, newRecordWriter(t, log.String())
}

// A client that sends messages of TLS and no data is disconnected. Without a limit it
// could leave a large message incomplete.
func TestQuietInput(t *testing.T) {
	const handshake, data = 22, 23
	k := kind{name: "tls", network: "tcp", tls: tls.VersionTLS13}
	partial := func(kind byte) []byte { return append([]byte{kind, 0, 0xf0, 0}, make([]byte, 2000)...) }
	for _, tt := range []struct {
		name    string
		records func(w *recordWriter) [][]byte
		want    error // nil: any
	}{
		{"a part of a large certificate", func(w *recordWriter) [][]byte {
			return [][]byte{w.record(handshake, partial(11)), w.record(handshake, make([]byte, 500))}
		}, errQuiet},
		{"a large part of it", func(w *recordWriter) (all [][]byte) {
			for range 6 {
				all = append(all, w.record(handshake, append([]byte{11, 3, 0xf0, 0}, make([]byte, 15_000)...)))
			}
			return all
		}, errQuiet},
		{"in the middle of a request", func(w *recordWriter) (all [][]byte) {
			all = append(all, w.record(data, []byte("x+")))
			for range 6 {
				all = append(all, w.record(handshake, append([]byte{11, 3, 0xf0, 0}, make([]byte, 15_000)...)))
			}
			return all
		}, errQuiet},
		{"records without data", func(w *recordWriter) (all [][]byte) {
			for range 20 {
				all = append(all, w.record(data, nil))
			}
			return all
		}, nil},
		{"an end of early data", func(w *recordWriter) [][]byte { return [][]byte{w.record(handshake, []byte{5, 0, 0, 0})} }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, k, 100)
			p, raw, w := dialRecords(t, h)
			if _, err := raw.Write(w.record(data, []byte("xy"))); err != nil {
				t.Fatal(err)
			}
			p.expect("xy") // the records are good
			for _, b := range tt.records(w) {
				raw.Write(b)
			}
			select {
			case <-p.s.ended:
			case <-time.After(testutil.Hangs):
				t.Fatal("it is not disconnected")
			}
			if tt.want != nil && !errors.Is(p.s.err, tt.want) {
				t.Errorf("ended with %v, want %v", p.s.err, tt.want)
			}
		})
	}
}
