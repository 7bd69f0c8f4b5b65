package session

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// What a client can do wrong costs that client only.
func TestClientFaults(t *testing.T) {
	desc, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(241, 1)})
	usable := func(c *talk) { // the next request is answered
		c.t.Helper()
		if got := c.do(&pdu.DescReq{PMID: id(241, 1)}); got != "241.0.1 U32" {
			c.t.Errorf("then: %s", got)
		}
	}
	fails := func(want string) func(*talk) {
		return func(c *talk) {
			c.t.Helper()
			if got := agentsettest.Show(c.recv()); got != want {
				c.t.Errorf("got %s, want %s", got, want)
			}
			usable(c)
		}
	}
	word := func(ws ...uint32) (b []byte) {
		for _, w := range ws {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return b
	}
	closed := func(c *talk) { c.t.Helper(); c.closed() }
	big := func(n int) []byte { return append(word(uint32(n), 0x7004, 0), make([]byte, n-12)...) }
	fetch := func(n int) []byte {
		b, _ := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, n)})
		return b
	}
	profiles := func(first, n uint32) (b []byte) {
		for context := range n {
			b = append(b, word(28, 0x7002, 0, first+context, 0, 0, 0)...)
		}
		return b
	}
	tests := []struct {
		name  string
		bytes []byte
		then  func(*talk)
	}{
		{"half a header and silence", desc[:6], closed},
		{"half a PDU and silence", desc[:13], closed},
		{"a whole one and half of the next", append(append([]byte(nil), desc...), desc[:14]...), func(c *talk) { c.recv(); c.closed() }},
		{"a negative length", word(0x80000000, 0x7004, 0), closed},
		{"a length of 0", word(0, 0x7004, 0), closed},
		{"a length shorter than a header", word(11, 0x7004, 0), closed},
		{"a length over the limit", word(64<<10+4, 0x7004, 0), closed},
		{"a huge length", word(0x7fffffff, 0x7004, 0), closed},
		{"a length at the limit", big(64 << 10), fails("PM_ERR_IPC")},
		{"type 0", word(12, 0, 0), closed},
		{"a negative type", word(12, 0xffff0000, 0), closed},
		{"an unknown type", word(12, 0x7777, 0), fails("PM_ERR_IPC")},
		{"the retired type", word(12, 0x700b, 0), fails("PM_ERR_IPC")},
		{"CONTROL_REQ", word(12, 0x700a, 0), fails("PM_ERR_IPC")},
		{"an ATTR out of turn", word(20, 0x7011, 0, 15, 0x61616161), fails("PM_ERR_IPC")},
		{"a body too short", word(12, 0x7004, 0), fails("PM_ERR_IPC")},
		{"a body too long", word(20, 0x7004, 0, 1, 2), fails("PM_ERR_IPC")},
		{"a fetch of nothing", word(28, 0x7003, 0, 0, 0, 0, 0), fails("PM_ERR_IPC")},
		{"a fetch of fewer than it says", word(32, 0x7003, 0, 0, 0, 0, 2, 1), fails("PM_ERR_IPC")},
		{"a fetch of more than it says", word(36, 0x7003, 0, 0, 0, 0, 1, 1, 1), fails("PM_ERR_IPC")},
		{"contexts beyond the limit", profiles(100, 65), func(c *talk) {
			if m := c.recv().(*pdu.Error); m.Code != -11 {
				c.t.Errorf("got %v, want -EAGAIN", m.Code)
			}
			usable(c)
		}},
		{"a negative context", word(28, 0x7002, 0, 0xffffffff, 0, 0, 0), fails("PM_ERR_IPC")},
		{"a profile that lies", word(28, 0x7002, 0, 0, 0, 1<<28, 0), fails("PM_ERR_IPC")},
		{"a fetch in a negative context", word(32, 0x7003, 0, 0xffffffff, 0, 0, 1, 1), fails("PM_ERR_NOPROFILE")},
		{"a fetch in a context with a high number", word(32, 0x7003, 0, 1<<20, 0, 0, 1, 1), fails("PM_ERR_NOPROFILE")},
		{"a fetch of too many", fetch(101), fails("PM_ERR_TOOBIG")},
		{"a fetch beyond the size limit", fetch(20000), closed},
		{"descs with a wrong word", word(24, 0x7016, 0, 0, 1, 1), fails("PM_ERR_IPC")},
		{"names that lie", word(24, 0x700e, 0, 1, 0, 1<<28), fails("PM_ERR_IPC")},
		{"a store that lies", word(24, 0x7001, 0, 0, 0, 1<<28), fails("PM_ERR_IPC")},
	}
	log, logs := logtest.NewLog()
	srv := newServer(t, tableOf(t, nil), func(c *Config) {
		c.RequestTimeout = func() time.Duration { return time.Minute }
		c.MaxContexts, c.Log = 64, log
	})
	other := dial(t, srv)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, srv)
			c.sendBytes(tt.bytes)
			other.t = t
			usable(other)
			tt.then(c)
			usable(other)
		})
	}
	t.Run("a request before CREDS", func(t *testing.T) {
		c := accept(t, srv, &fakeConn{peer: conn.Peer{Unix: true}})
		c.sendBytes(desc)
		c.closed()
	})
	for _, want := range []string{"in the middle of a PDU", "exceeds maximum client PDU size"} {
		if len(logs.With(want)) == 0 {
			t.Errorf("%q is not in the log", want)
		}
	}
}

// A client may send several PDUs at once, in pieces of any size.
func TestPieces(t *testing.T) {
	var b []byte
	for range 5 {
		b, _ = pdu.Append(b, 0, &pdu.Profile{})
		b, _ = pdu.Append(b, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}})
	}
	srv := newServer(t, tableOf(t, nil), nil)
	for _, size := range []int{1, 7, len(b)} {
		c := accept(t, srv, &fakeConn{peer: conn.Peer{Unix: true}, piece: size})
		c.send(pdutest.Creds(0))
		c.sendBytes(b)
		for range 5 {
			if got := agentsettest.Show(c.recv()); got != "240.0.1=240" {
				t.Errorf("pieces of %d: %s", size, got)
			}
		}
	}
}

// The acceptor has a whole CREDS PDU handled that needs no more than a reply, and nothing
// else: a session needs no goroutine until then.
func TestFirst(t *testing.T) {
	creds := func(flags pdu.Features) []byte {
		b, err := pdu.Append(nil, 7, pdutest.Creds(flags))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := creds(0)
	for _, tt := range []struct {
		name    string
		in      []byte
		handled bool
	}{
		{"CREDS", plain, true},
		{"CREDS that fail", creds(pdu.FeatureCompress), true},
		{"a part of CREDS", plain[:9], false},
		{"CREDS and more", append(slices.Clone(plain), 0), false},
		{"TLS", creds(pdu.FeatureSecure), false},
		{"a login", creds(pdu.FeatureAuth), false},
		{"a request", []byte("\x00\x00\x00\x10\x00\x00\x70\x04\x00\x00\x00\x00\x00\x00\x00\x01"), false},
		{"no PDU", []byte("GET / HTTP/1.0\r\n\r\n"), false},
	} {
		s, _ := withInput(t, new(routes.Table))
		s.client.Version.Store(0)
		if _, handled := s.First(tt.in); handled != tt.handled || handled != (s.client.Version.Load() == 2) {
			t.Errorf("%s: handled: %v, version %d", tt.name, handled, s.client.Version.Load())
		}
	}
}

// Where an account or a certificate is required, a client without one may do nothing, from
// the first PDU on. A TLS handshake that does not begin gives no rights.
func TestRequired(t *testing.T) {
	remote, local := conn.Peer{Addr: netip.MustParseAddr("127.0.0.2")}, conn.Peer{Addr: netip.MustParseAddr("127.0.0.1")}
	const always = pdu.FeatureContainer | pdu.FeatureLabels | pdu.FeatureHighRes | pdu.FeatureDescs
	for _, tt := range []struct {
		name        string
		peer        conn.Peer
		cert, creds bool
		greeting    pdu.Features
		want        string // in reply to CREDS; "" is success
	}{
		{"nothing", remote, false, false, always, ""},
		{"an account", local, false, true, always | pdu.FeatureCredsReqd, "PM_ERR_PERMISSION"},
		{"an account, of a process", conn.Peer{Unix: true, UID: 1}, false, true, always | pdu.FeatureCredsReqd, ""},
		{"a certificate", remote, true, false, always | pdu.FeatureCertReqd, "PM_ERR_NEEDCLIENTCERT"},
		{"a certificate, of a local client", local, true, false, always | pdu.FeatureCertReqd, ""},
		{"a certificate, of a process", conn.Peer{Unix: true}, true, false, always | pdu.FeatureCertReqd, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, tableOf(t, nil), func(c *Config) { c.CertRequired = tt.cert })
			rules, err := access.New(nil, access.Env{CredsRequired: tt.creds})
			if err != nil {
				t.Fatal(err)
			}
			srv.ApplyRules(rules)
			for _, flags := range []pdu.Features{0, pdu.FeatureSecure} {
				c := accept(t, srv, &fakeConn{peer: tt.peer})
				if _, m, err := pdu.Parse(c.greeting); err != nil || pdu.Features(m.(*pdu.Error).Info&0xffff) != tt.greeting {
					t.Errorf("greeting %+v, %v; want %#x", m, err, tt.greeting)
				}
				c.send(pdutest.Creds(flags), &pdu.Profile{}, &pdu.DescReq{PMID: id(241, 1)}, &pdu.Result{})
				want := []string{"241.0.1 U32", "0"}
				if tt.want != "" || tt.creds && flags != 0 { // the exchange has failed
					want = []string{"PM_ERR_PERMISSION", "PM_ERR_PERMISSION", "PM_ERR_PERMISSION"}
				}
				if flags != 0 {
					want = append([]string{"PM_ERR_NOTCONN"}, want...)
				} else if tt.want != "" {
					want = append([]string{tt.want}, want...)
				}
				for i, want := range want {
					if got := agentsettest.Show(c.recv()); got != want {
						t.Errorf("flags %#x, reply %d: got %s, want %s", flags, i, got, want)
					}
				}
			}
		})
	}
}
