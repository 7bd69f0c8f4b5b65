// Package pdutest has a client of pmcd that sends and receives one PDU at a time. It is for
// tests of what package pdu/pmapi hides: the greeting, the flags of CREDS, what precedes a
// reply, replies that are not read, and PDUs that pmcd must reject. A test that only needs
// names or values uses pmapi.
//
// The package is not meant for other modules.
package pdutest

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Timeout is how long after Dial a client's input and output fail, unless the test sets
// another deadline.
const Timeout = 2 * time.Minute

// A Client is one connection. It is for one goroutine. A test can write what is no PDU, or
// only a part of one, to its Conn.
type Client struct {
	net.Conn
	From int32 // in the headers of PDUs that it sends

	r *pdu.Reader
}

// New returns a client on a connection. It neither sends nor receives anything.
func New(conn net.Conn) *Client {
	c := new(Client)
	c.Use(conn)
	return c
}

// Dial connects from a local IP address, or from any if that is "". It neither sends nor
// receives anything.
func Dial(network, addr, from string) (*Client, error) {
	d := net.Dialer{Timeout: Timeout}
	if from != "" {
		ip := net.ParseIP(from)
		if ip == nil {
			return nil, fmt.Errorf("%q is no IP address", from)
		}
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	conn, err := d.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	return New(conn), conn.SetDeadline(time.Now().Add(Timeout))
}

// Use makes conn, such as TLS on the former connection, carry what follows.
func (c *Client) Use(conn net.Conn) { c.Conn, c.r = conn, pdu.NewReader(conn, 0) }

// Greeting receives the greeting, and returns the features that pmcd offers. If pmcd refuses
// the client, the error is a pdu.Errno.
func (c *Client) Greeting() (pdu.Features, error) {
	m, err := c.Next()
	if err != nil {
		return 0, err
	}
	switch e, ok := m.(*pdu.Error); {
	case !ok || !e.Greeting:
		return 0, fmt.Errorf("%+v is no greeting", m)
	case e.Code != 0:
		return 0, pdu.FromGreetingCode(e.Code)
	default:
		return pdu.Features(e.Info), nil
	}
}

// Handshake receives the greeting, and sends CREDS with flags.
func (c *Client) Handshake(flags pdu.Features) error {
	if _, err := c.Greeting(); err != nil {
		return err
	}
	return c.Send(Creds(flags))
}

// Creds returns the CREDS of a client.
func Creds(flags pdu.Features) *pdu.Creds {
	return &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(flags)}}
}

// Send sends PDUs with one Write.
func (c *Client) Send(ms ...pdu.Message) error {
	var b []byte
	for _, m := range ms {
		var err error
		if b, err = pdu.Append(b, c.From, m); err != nil {
			return err
		}
	}
	_, err := c.Write(b)
	return err
}

// Receive returns the bytes of the next PDU, which are valid until the next call.
func (c *Client) Receive() ([]byte, error) { return c.r.Next() }

// Next returns the next PDU.
func (c *Client) Next() (pdu.Message, error) {
	b, err := c.Receive()
	if err != nil {
		return nil, err
	}
	_, m, err := pdu.Parse(slices.Clone(b)) // Parse aliases its input
	return m, err
}

// Do sends a request and returns the next PDU: the reply or, after some fetches, a notice of
// state changes, which is a pdu.Error with a positive code.
func (c *Client) Do(req pdu.Message) (pdu.Message, error) {
	if err := c.Send(req); err != nil {
		return nil, err
	}
	return c.Next()
}
