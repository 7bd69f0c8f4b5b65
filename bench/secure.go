package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// secureMeasures are the measures of TLS connections. Goal is for their rate. The client's
// part of the work is the same with both daemons: "client" is its CPU time, and "p50-client"
// is p50 without it, if there is one client.
func secureMeasures(goal float64) []measure {
	return []measure{
		{key: "rate", unit: "1/s", higher: true, goal: goal},
		{key: "p50", unit: "µs"},
		{key: "p50-client", unit: "µs"},
		{key: "cpu", unit: "µs"},
		{key: "client", unit: "µs"},
	}
}

// secureStormMeasures are the measures of clients that connect with TLS at the same moment.
var secureStormMeasures = []measure{
	{key: "rate", unit: "1/s", higher: true, goal: 1},
	{key: "all", unit: "ms"},
	{key: "failed"},
}

var secureScenarios = func() []scenario {
	rsa, ecdsa := setup{tls: rsaKey}, setup{tls: ecdsaKey}
	memory := []measure{
		{key: "KiB/client", unit: "KiB", goal: 24, own: true},
		{key: "PSS/client", unit: "KiB"},
		{key: "anonymous/client", unit: "KiB"},
	}
	fetched := append(usual(1, 0), measure{key: "client", unit: "µs"})
	return []scenario{
		{name: "tls-fetch-one", about: "TLS, a metric of pmcd's own", setup: rsa, shows: fetched, run: fetch(1, numClients)},
		{name: "tls-fetch-64", about: "TLS, 64 metrics of pmcd's own", setup: rsa, shows: fetched, run: fetchOwn(64)},
		{name: "tls-connect-rsa", about: "TLS with " + rsaKey + ", one after another: connect, a request, close", setup: rsa, shows: secureMeasures(0.6), run: secureConnects(1)},
		{name: "tls-connect-4", about: "4 clients, the same; C pmcd serves as many", setup: rsa, shows: many(0, 0)[:2], run: secureConnects(4)},
		{name: "tls-connect-64", about: "64 clients, the same", setup: rsa, shows: append(many(1, 0)[:2], measure{key: "cpu", unit: "µs"}), rounds: 3, run: secureConnects(64)},
		{name: "tls-storm-64-rsa", about: "64 connect at once, the same", setup: rsa, shows: secureStormMeasures, run: connectStorm(64)},
		{name: "tls-connect-ecdsa", about: "TLS with " + ecdsaKey + ", one after another", setup: ecdsa, shows: secureMeasures(0.9), run: secureConnects(1)},
		{name: "tls-storm-64", about: "64 connect at once, the same", setup: ecdsa, shows: secureStormMeasures, run: connectStorm(64)},
		{name: "tls-clients", about: "memory of 1,000 idle TLS clients", setup: ecdsa, shows: memory, rounds: 3, fresh: true, run: idleSecure(1000, false)},
		{name: "tls-clients-cert", about: "the same, each with a certificate", setup: ecdsa, shows: memory, rounds: 3, fresh: true, run: idleSecure(1000, true)},
	}
}()

// clientTLS returns the configuration of clients. cert may be nil.
//
// They offer only X25519, as OpenSSL 3.0 does. Package tls also offers a hybrid with
// ML-KEM-768, which only the pmcd of this module would choose: it would have more to do than
// C pmcd, and so would its clients.
func clientTLS(cert *tls.Certificate) *tls.Config {
	c := &tls.Config{
		InsecureSkipVerify: true, // as PCP's clients do, unless their tls.conf says otherwise
		MinVersion:         tls.VersionTLS13,
		CurvePreferences:   []tls.CurveID{tls.X25519},
	}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	return c
}

// A socketConn is a socket for package tls, which calls no other methods.
type socketConn struct {
	net.Conn // nil
	socket
}

func (c socketConn) Read(b []byte) (int, error)       { return c.socket.Read(b) }
func (c socketConn) Write(b []byte) (int, error)      { return c.socket.Write(b) }
func (c socketConn) Close() error                     { return c.socket.Close() }
func (c socketConn) SetDeadline(time.Time) error      { return nil }
func (c socketConn) SetWriteDeadline(time.Time) error { return nil }

// dialSecure is dial with TLS.
func dialSecure(port int, cfg *tls.Config) (*client, error) {
	s, err := connect(port)
	if err != nil {
		return nil, err
	}
	c, err := greetSecure(socketConn{socket: s}, cfg)
	if err != nil {
		return nil, err
	}
	return c, s.timeout(replyTimeout)
}

// wantTLS is the CREDS PDU of a client that goes on with a TLS handshake, after the
// acknowledgement.
var wantTLS = encode(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(pdu.FeatureSecure | pdu.FeatureSecureAck)}})

// profile is of all instances.
var profile = encode(&pdu.Profile{})

// greetSecure is greet with TLS. It closes conn if there is an error.
func greetSecure(conn net.Conn, cfg *tls.Config) (c *client, err error) {
	defer func() {
		if err != nil {
			conn.Close()
			err = fmt.Errorf("TLS: %w", err)
		}
	}()
	if err := acknowledged(conn); err != nil {
		return nil, err
	}
	s := tls.Client(conn, cfg)
	if err := s.Handshake(); err != nil {
		return nil, err
	}
	if v := s.ConnectionState().Version; v != tls.VersionTLS13 {
		return nil, errors.New(tls.VersionName(v))
	}
	if _, err := s.Write(profile); err != nil {
		return nil, err
	}
	return &client{conn: s, r: pdu.NewReader(s, 0)}, nil
}

// acknowledged reads the greeting and agrees on TLS.
func acknowledged(conn net.Conn) error {
	r := pdu.NewReader(conn, 0)
	next := func() (m pdu.Error, err error) {
		b, err := r.Next()
		if err == nil {
			_, err = pdu.ParseInto(b, &m)
		}
		return m, err
	}
	greeting, err := next()
	switch {
	case err != nil:
		return err
	case greeting.Code < 0:
		return pdu.FromGreetingCode(greeting.Code)
	}
	if _, err := conn.Write(wantTLS); err != nil {
		return err
	}
	ack, err := next()
	if err == nil && ack.Code != 0 {
		err = ack.Code
	}
	return err
}

// secureConnects measures n clients that connect with TLS, send a request and disconnect,
// again and again. The daemon has finished a handshake only when it replies.
func secureConnects(n int) func(r *run) error {
	return func(r *run) error {
		r.measure(load{clients: n, op: func(*client, int) error { return r.once(served) }})
		if n == 1 {
			r.got["p50-client"] = r.got["p50"] - r.got["client"]
		}
		return nil
	}
}

// fetchOwn measures fetches of n metrics of pmcd's own.
func fetchOwn(n int) func(r *run) error {
	return func(r *run) error {
		var names []string
		if err := r.with(func(c *pmapi.Client) (err error) {
			names, _, err = below(c, "pmcd.pdu_in", "pmcd.pdu_out", "pmcd.feature", "pmcd.cputime", "pmcd.buf", "pmcd.numagents", "pmcd.numclients")
			return err
		}); err != nil {
			return err
		}
		if len(names) < n {
			return fmt.Errorf("%d metrics, %d wanted", len(names), n)
		}
		return fetchNames(1, 0, names[:n]...)(r)
	}
}

// idleSecure measures the memory of n TLS clients, each of which has sent a request and is
// idle. The first one is not counted: the daemon uses its code for TLS for the first time.
func idleSecure(n int, withCert bool) func(r *run) error {
	return func(r *run) error {
		all, err := makeCertificates()
		if err != nil {
			return err
		}
		cfg := clientTLS(nil)
		if withCert {
			cfg = clientTLS(all.client)
		}
		var idle []*client
		defer func() {
			for _, c := range idle {
				c.Close()
			}
		}()
		one := func() error {
			c, err := dialSecure(r.port, cfg)
			if err == nil {
				idle = append(idle, c)
				err = served(c)
			}
			return err
		}
		if err := one(); err != nil {
			return err
		}
		before, pss := memoryOf(r.pid()), pssOf(r.pid())
		for len(idle) <= n {
			if err := one(); err != nil {
				return fmt.Errorf("client %d: %w", len(idle), err)
			}
		}
		each := func(now, before int64) float64 { return float64(now-before) / 1024 / float64(n) }
		now := memoryOf(r.pid())
		r.got["KiB/client"], r.got["anonymous/client"] = each(now.rss, before.rss), each(now.anon, before.anon)
		r.got["PSS/client"] = each(pssOf(r.pid()), pss)
		for _, c := range idle { // idle clients still get replies
			if err := served(c); err != nil {
				return fmt.Errorf("idle client: %w", err)
			}
		}
		return nil
	}
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
