package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

const (
	// connectTimeout is libpcp's (PMCD_CONNECT_TIMEOUT, PCPIntro(1)).
	connectTimeout = 5 * time.Second
	// replyTimeout is longer than a pmcd delays a client for another one's agent.
	replyTimeout = 30 * time.Second
)

// A client is one connection. Its requests are encoded before, and most of its replies are compared
// and not decoded. Requests that are not measured are made by package pmapi, which costs more. In
// turns with both daemons on 2 CPUs, p50 of fetch-one was 17 to 21 µs with this client and 23 to 26
// with pmapi, that of name 17 to 21 and 24 to 28, and the CPU time of the client for a name 11 to
// 12 µs and 15 to 18.
type client struct{ *pdutest.Client }

// A blocking connection is for a closed loop. Package net would add the cost of the network poller
// to each reply, which a C client does not have.
type blocking struct{ *os.File }

func (blocking) LocalAddr() net.Addr  { return nil }
func (blocking) RemoteAddr() net.Addr { return nil }

func (b blocking) Read(p []byte) (int, error) {
	n, err := b.File.Read(p)
	if errors.Is(err, unix.EAGAIN) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// SetDeadline limits each read and write by the time from now to t.
func (b blocking) SetDeadline(t time.Time) error {
	fd, tv := int(b.Fd()), unix.NsecToTimeval(time.Until(t).Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
}

// dialBlocking connects to a port of 127.0.0.1, with TLS if cfg is not nil.
func dialBlocking(port int, cfg *tls.Config) (*client, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	b := blocking{os.NewFile(uintptr(fd), "pmcd")}
	// The source changes, because many connections in a row would use up the ports of one address.
	if err := errors.Join(
		b.SetDeadline(time.Now().Add(connectTimeout)),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 1, byte(1 + rand.IntN(250))}}),
	); err != nil {
		b.Close()
		return nil, err
	}
	err = unix.EINTR
	for err == unix.EINTR { // a signal of the Go runtime; the next call waits for the same connection
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		b.Close()
		return nil, os.NewSyscallError("connect", err)
	}
	c, err := greet(b, cfg, profile)
	if err != nil {
		return nil, err
	}
	return c, b.SetDeadline(time.Now().Add(replyTimeout))
}

// dial connects by package net: for many clients at the same moment, each of which would need a
// thread, and for those that are not in a closed loop. All must be done when connectTimeout has
// passed, unless the caller sets another deadline.
func dial(network, addr string, cfg *tls.Config, first []byte) (*client, error) {
	conn, err := net.DialTimeout(network, addr, connectTimeout)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(connectTimeout))
	return greet(conn, cfg, first)
}

// profile is of all instances. It must precede the first fetch.
var profile = encode(&pdu.Profile{})

// encode returns messages in wire form.
var encode = attack.Encode

// greet reads the greeting, agrees on TLS if cfg is not nil, and sends CREDS and the first request
// that has no reply. It closes conn if there is an error.
func greet(conn net.Conn, cfg *tls.Config, first []byte) (c *client, err error) {
	phase := "greeting"
	defer func() {
		if err == nil {
			return
		}
		conn.Close()
		c = nil
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the addresses
		}
		err = fmt.Errorf("%s: %w", phase, err)
	}()
	c = &client{pdutest.New(conn)}
	if _, err := c.Greeting(); err != nil {
		return c, err
	}
	if cfg == nil {
		_, err = c.Write(append(encode(pdutest.Creds(0)), first...))
		return c, err
	}
	phase = "TLS"
	ack, err := c.Do(pdutest.Creds(pdu.FeatureSecure | pdu.FeatureSecureAck))
	if err != nil {
		return c, err
	}
	if m, ok := ack.(*pdu.Error); !ok || m.Code != 0 {
		return c, fmt.Errorf("the answer is %+v", ack)
	}
	s := tls.Client(conn, cfg)
	if err = s.Handshake(); err == nil {
		c.Use(s)
		_, err = c.Write(first)
	}
	return c, err
}

// call sends a request and returns the reply, which is valid until the next call.
func (c *client) call(req []byte) ([]byte, error) {
	if _, err := c.Write(req); err != nil {
		return nil, err
	}
	return c.reply()
}

// reply reads the reply to a request. It skips notices of state changes before the
// reply. It returns an ERROR as an Errno; then the connection can be used further.
func (c *client) reply() ([]byte, error) {
	for {
		b, err := c.Receive()
		if err != nil {
			return nil, err
		}
		if _, t, _ := pdu.Header(b); t != pdu.TypeError {
			return b, nil
		}
		var m pdu.Error
		if _, err := pdu.ParseInto(b, &m); err != nil {
			return nil, err
		}
		if m.Code <= 0 {
			return nil, m.Code
		}
	}
}

// isBroken reports whether a connection is of no further use after an error.
func isBroken(err error) bool {
	code := pdu.Errno(0)
	return err != nil && !errors.As(err, &code)
}

// ask is call with a decoded reply of type T.
func ask[T pdu.Message](c *client, req pdu.Message) (reply T, err error) {
	b, err := c.call(encode(req))
	if err != nil {
		return reply, err
	}
	_, m, err := pdu.Parse(bytes.Clone(b))
	if err != nil {
		return reply, err
	}
	reply, ok := m.(T)
	if !ok {
		return reply, fmt.Errorf("%v in reply to %v", m.Type(), req.Type())
	}
	return reply, nil
}
