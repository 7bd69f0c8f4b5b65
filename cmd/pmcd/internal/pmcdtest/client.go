package pmcdtest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Greeted connects to a Unix domain socket and reads the greeting of pmcd.
func Greeted(path string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.ReadFull(conn, make([]byte, 20)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// A Client is a client of pmcd that sends PDUs as the test says. It is for one
// goroutine.
type Client struct {
	net.Conn
	From int32 // in the headers of PDUs that it sends
	r    *pdu.Reader
}

// NewClient returns a client on a connection. It neither sends nor receives anything.
func NewClient(conn net.Conn) *Client { return &Client{Conn: conn, r: pdu.NewReader(conn, 0)} }

// Dial connects to a Unix domain socket and does the handshake.
func Dial(path string) (*Client, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	c := NewClient(conn)
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if err := c.Handshake(); err != nil {
		conn.Close()
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// Handshake reads the greeting, which must be that of a client that is accepted, and
// sends CREDS and a profile.
func (c *Client) Handshake() error {
	m, err := c.Next()
	if err != nil {
		return err
	}
	if e, ok := m.(*pdu.Error); !ok || e.Code != 0 {
		return fmt.Errorf("greeting %+v", m)
	}
	return c.Send(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}, &pdu.Profile{})
}

// Send sends PDUs with one write.
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

// Next returns the next PDU.
func (c *Client) Next() (pdu.Message, error) {
	b, err := c.r.Next()
	if err != nil {
		return nil, err
	}
	_, m, err := pdu.Parse(slices.Clone(b)) // Parse aliases its input
	return m, err
}

// Do sends a request and returns the reply, and the state changes that came before it.
func (c *Client) Do(req pdu.Message) (reply pdu.Message, changes pdu.Errno, err error) {
	if err := c.Send(req); err != nil {
		return nil, 0, err
	}
	for {
		m, err := c.Next()
		if err != nil {
			return nil, changes, err
		}
		if e, ok := m.(*pdu.Error); !ok || e.Code <= 0 {
			return m, changes, nil
		} else {
			changes |= e.Code
		}
	}
}

// Fetch returns the values of metrics, and the state changes that came before them. An
// ERROR is a pdu.Errno.
func (c *Client) Fetch(ids ...pdu.PMID) (sets []pdu.ValueSet, changes pdu.Errno, err error) {
	m, changes, err := c.Do(&pdu.Fetch{PMIDs: ids})
	if err != nil {
		return nil, changes, err
	}
	switch m := m.(type) {
	case *pdu.Error:
		return nil, changes, m.Code
	case *pdu.Result:
		return m.Sets, changes, nil
	}
	return nil, changes, fmt.Errorf("%v in reply to a fetch", m.Type())
}

// Words returns a word for each value set: its value, if it has one of 32 bits, its
// error, or the number of values.
func Words(sets []pdu.ValueSet) string {
	words := make([]string, len(sets))
	for i, vs := range sets {
		switch {
		case vs.Err != 0:
			words[i] = vs.Err.Name()
		case len(vs.Values) == 1 && vs.Values[0].Block == nil:
			words[i] = fmt.Sprint(vs.Values[0].Word)
		default:
			words[i] = fmt.Sprintf("[%d values]", len(vs.Values))
		}
	}
	return strings.Join(words, " ")
}
