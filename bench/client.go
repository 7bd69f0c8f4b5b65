package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

const (
	// connectTimeout is libpcp's (PMCD_CONNECT_TIMEOUT, PCPIntro(1)).
	connectTimeout = 5 * time.Second
	// replyTimeout is longer than a pmcd delays a client for another one's agent.
	replyTimeout = 30 * time.Second
)

// A client is one connection of a closed loop. Its requests are encoded before, and most of
// its replies are compared and not decoded. Requests that are not measured are made by package
// pmapi, which costs more. In turns with both daemons on 2 CPUs, p50 of fetch-one was 17 to 21 µs
// with this client and 23 to 26 with pmapi, that of name 17 to 21 and 24 to 28, and the CPU time
// of the client for a name 11 to 12 µs and 15 to 18.
type client struct {
	conn io.ReadWriteCloser
	r    *pdu.Reader
}

// A socket is a blocking descriptor. Package net would add the cost of the network
// poller to each reply, which a C client does not have.
type socket int

func (s socket) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(s), b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (s socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(int(s), b[done:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return done, os.ErrDeadlineExceeded
		case err != nil:
			return done, os.NewSyscallError("write", err)
		default:
			done += n
		}
	}
	return done, nil
}

// timeout limits each read and write.
func (s socket) timeout(d time.Duration) error {
	tv := unix.NsecToTimeval(d.Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(int(s), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptTimeval(int(s), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
}

func (s socket) Close() error { return unix.Close(int(s)) }

// source returns a loopback address for a connection. The address changes, because
// many connections in a row would use up the ports of one address.
func source() [4]byte { return [4]byte{127, 0, 1, byte(1 + rand.IntN(250))} }

// connect opens a socket to a port of 127.0.0.1.
func connect(port int) (s socket, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := errors.Join(
		socket(fd).timeout(connectTimeout),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: source()}),
	); err != nil {
		return 0, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == unix.EINTR { // a signal of the Go runtime; it goes on connecting
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for err == unix.EINTR {
			_, err = unix.Poll(p, int(connectTimeout.Milliseconds()))
		}
		if err == nil {
			var sts int
			if sts, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); sts != 0 {
				err = unix.Errno(sts)
			}
		}
	}
	if err != nil {
		return 0, os.NewSyscallError("connect", err)
	}
	return socket(fd), nil
}

// dial connects and sends the greeting.
func dial(port int) (*client, error) {
	s, err := connect(port)
	if err != nil {
		return nil, err
	}
	c, err := greet(s)
	if err != nil {
		return nil, err
	}
	return c, s.timeout(replyTimeout)
}

// dialNet is dial with package net, for many clients that connect at the same
// moment. With dial, each would need a thread.
func (r *run) dialNet() (*client, error) {
	d := net.Dialer{Timeout: connectTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(source()), 0))}
	conn, err := d.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(connectTimeout))
	if r.setup.tls != "" {
		return greetSecure(conn, clientTLS(nil))
	}
	return greet(conn)
}

// hello is the first data that a client sends: its version, and a profile of all
// instances, which must precede the first fetch.
var hello = encode(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}, &pdu.Profile{})

func greet(conn io.ReadWriteCloser) (*client, error) { return greetWith(conn, hello) }

// greetWith reads the greeting, and sends hello.
func greetWith(conn io.ReadWriteCloser, hello []byte) (*client, error) {
	c := &client{conn: conn, r: pdu.NewReader(conn, 0)}
	b, err := c.r.Next()
	var m pdu.Error
	if err == nil {
		_, err = pdu.ParseInto(b, &m)
	}
	switch {
	case err != nil:
	case !m.Greeting:
		err = errors.New("no greeting")
	case m.Code < 0:
		err = pdu.FromGreetingCode(m.Code)
	default:
		_, err = conn.Write(hello)
	}
	if err != nil {
		conn.Close()
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the addresses
		}
		return nil, fmt.Errorf("greeting: %w", err)
	}
	return c, nil
}

func (c *client) Close() error { return c.conn.Close() }

// encode returns the messages in wire form. It panics if that fails.
func encode(ms ...pdu.Message) (b []byte) {
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, 0, m); err != nil {
			panic(err)
		}
	}
	return b
}

// call sends a request and returns the reply, which is valid until the next call.
func (c *client) call(req []byte) ([]byte, error) {
	if _, err := c.conn.Write(req); err != nil {
		return nil, err
	}
	return c.reply()
}

// reply reads the reply to a request. It skips notices of state changes before the
// reply. It returns an ERROR as an Errno; then the connection can be used further.
func (c *client) reply() ([]byte, error) {
	for {
		b, err := c.r.Next()
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

// fetch returns the values of metrics.
func (c *client) fetch(ids ...pdu.PMID) ([]pdu.ValueSet, error) {
	m, err := ask[*pdu.Result](c, &pdu.Fetch{PMIDs: ids})
	if err != nil {
		return nil, err
	}
	return m.Sets, haveIDs(m.Sets, ids)
}

func haveIDs(sets []pdu.ValueSet, ids []pdu.PMID) error {
	if len(sets) != len(ids) {
		return fmt.Errorf("%d value sets for %d metrics", len(sets), len(ids))
	}
	for i, s := range sets {
		if s.PMID != ids[i] {
			return fmt.Errorf("values of %v, not of %v", s.PMID, ids[i])
		}
	}
	return nil
}

// haveValues returns an error unless all metrics have values.
func haveValues(sets []pdu.ValueSet) error {
	for _, s := range sets {
		if s.Err != 0 {
			return fmt.Errorf("%v: %w", s.PMID, s.Err)
		}
		if len(s.Values) == 0 {
			return fmt.Errorf("%v: %w", s.PMID, pdu.ErrnoValue)
		}
	}
	return nil
}
