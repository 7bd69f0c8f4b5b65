package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

const (
	// holdTime is how long a handshake or login that never ends takes. It is shorter than
	// pmcd's limits, so that there are more of them.
	holdTime = 2 * time.Second

	handshakeTimeout = 30 * time.Second
)

// credsWith returns a CREDS PDU with features.
func credsWith(f pdu.Features) []byte {
	return Encode(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(f)}})
}

// clientTLS offers only X25519, as clients with OpenSSL 3.0 do.
var clientTLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}

// clientHello is the first message of a TLS handshake. A pmcd computes as much for a copy
// of it as for another one.
var clientHello = sync.OnceValue(func() []byte {
	var hello firstWrite
	tls.Client(&hello, clientTLS).Handshake()
	return hello.b
})

// A firstWrite keeps what is written to it first, and then fails.
type firstWrite struct {
	net.Conn
	b []byte
}

var errFirst = errors.New("this is enough")

func (c *firstWrite) Write(b []byte) (int, error) {
	c.b = append(c.b, b...)
	return 0, errFirst
}

func (c *firstWrite) Close() error                     { return nil }
func (c *firstWrite) SetWriteDeadline(time.Time) error { return nil }

// Handshakes makes TLS handshakes, again and again. One in two is made to the end. Of the
// others, one in two stops in the middle of the first message, and one after it.
func Handshakes() func(int) Script {
	creds, hello := credsWith(pdu.FeatureSecure|pdu.FeatureSecureAck), clientHello()
	begun := append(append([]byte(nil), creds...), hello...)
	scripts := []Script{
		{Once: creds, Handshake: true},
		{Once: begun[:len(creds)+len(hello)/2], Unread: true, Hold: holdTime},
		{Once: creds, Handshake: true},
		{Once: begun, Unread: true, Hold: holdTime},
	}
	return func(i int) Script { return scripts[i%len(scripts)] }
}

// loginNames is how many users a connection of Logins tries.
const loginNames = 64

// Logins has logins that fail, each with another user name. One connection in two begins a
// login and does not go on.
func Logins() func(int) Script {
	creds := credsWith(pdu.FeatureAuth)
	return func(i int) Script {
		if i%2 == 1 {
			return Script{Once: creds, Unread: true, Hold: holdTime}
		}
		s := Script{Wait: true}
		for n := range loginNames {
			s.Repeat = append(s.Repeat, creds, Encode(&pdu.Attr{Value: fmt.Appendf(nil, "PLAIN\x00\x00user%dx%d\x00guess", i, n)}))
		}
		return s
	}
}

// handshake sends Once and makes a TLS handshake.
func (r *Running) handshake(ctx context.Context, conn net.Conn, s Script) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	if !r.write(conn, s.Once) {
		return
	}
	var ack [16]byte
	n, err := io.ReadFull(conn, ack[:])
	r.received.Add(int64(n))
	if err == nil && tls.Client(countedConn{conn, r}, clientTLS).Handshake() == nil {
		r.replies.Add(1)
	}
}

// secure makes a TLS connection of conn, or returns nil.
func (r *Running) secure(ctx context.Context, conn net.Conn) *tls.Conn {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	var ack [16]byte
	s := tls.Client(conn, clientTLS)
	if !r.write(conn, credsWith(pdu.FeatureSecure|pdu.FeatureSecureAck)) {
		return nil
	}
	if _, err := io.ReadFull(conn, ack[:]); err != nil || s.Handshake() != nil {
		return nil
	}
	conn.SetDeadline(time.Time{})
	return s
}

// A countedConn is the connection of a TLS client.
type countedConn struct {
	net.Conn
	r *Running
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.r.received.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.r.sent.Add(int64(n))
	return n, err
}
