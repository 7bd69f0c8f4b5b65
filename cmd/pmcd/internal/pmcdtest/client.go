package pmcdtest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
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

// Value returns the value of a metric that has one value, which is a number of 32 bits.
// The error can be that of the metric.
func (c *Client) Value(id pdu.PMID) (uint32, error) {
	sets, _, err := c.Fetch(id)
	switch {
	case err != nil:
		return 0, err
	case len(sets) != 1:
		return 0, fmt.Errorf("%d value sets", len(sets))
	case sets[0].Err < 0:
		return 0, sets[0].Err
	case len(sets[0].Values) != 1:
		return 0, fmt.Errorf("%d values", len(sets[0].Values))
	}
	return sets[0].Values[0].Word, nil
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

// FetchAll fetches all metrics of the name space. It returns the number of values of
// each, or the error of the metric, which is negative.
func (c *Client) FetchAll(t *testing.T) map[pdu.PMID]int {
	t.Helper()
	c.SetDeadline(time.Now().Add(time.Minute))
	defer c.SetDeadline(time.Time{})
	m, _, err := c.Do(&pdu.PMNSTraverse{Name: ""})
	names, ok := m.(*pdu.PMNSNames)
	if !ok || len(names.Names) == 0 {
		t.Fatalf("no names: %+v, %v", m, err)
	}
	values := make(map[pdu.PMID]int)
	for chunk := range slices.Chunk(names.Names, 1000) {
		m, _, err := c.Do(&pdu.PMNSNames{Names: chunk})
		ids, ok := m.(*pdu.PMNSIDs)
		if !ok {
			t.Fatalf("no PMIDs: %+v, %v", m, err)
		}
		sets, _, err := c.Fetch(ids.PMIDs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			if values[set.PMID] = len(set.Values); set.Err < 0 {
				values[set.PMID] = int(set.Err)
			}
		}
	}
	return values
}
