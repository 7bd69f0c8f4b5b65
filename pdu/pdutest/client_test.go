package pdutest

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A server is the other end of a client's connection.
type server struct {
	t *testing.T
	*Client
}

// pair returns a client that has dialled and the server's end.
func pair(t *testing.T, from string) (*Client, server) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial("tcp4", l.Addr().String(), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return c, server{t, New(conn)}
}

// send sends PDUs.
func (s server) send(ms ...pdu.Message) {
	s.t.Helper()
	if err := s.Send(ms...); err != nil {
		s.t.Fatal(err)
	}
}

// A client has the error with which it is refused, and sends CREDS only if it is accepted.
func TestHandshake(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first pdu.Message
		want  error // nil: accepted
	}{
		{"accepted", &pdu.Error{Greeting: true, Info: pdu.GreetingInfo(0)}, nil},
		{"refused", &pdu.Error{Greeting: true, Code: pdu.GreetingCode(pdu.ErrnoConnLimit)}, pdu.ErrnoConnLimit},
		{"an ERROR that is no greeting", &pdu.Error{}, errors.ErrUnsupported},
		{"another PDU", &pdu.Desc{}, errors.ErrUnsupported},
		{"no PDU", nil, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := pair(t, "")
			c.From = 7
			if tt.first == nil {
				s.Close()
			} else {
				s.send(tt.first)
			}
			err := c.Handshake(pdu.FeatureSecure)
			if tt.want == errors.ErrUnsupported { // any but that of pmcd
				if code := pdu.Errno(0); err == nil || errors.As(err, &code) {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				return
			}
			b, err := s.Receive()
			if err != nil {
				t.Fatal(err)
			}
			from, m, err := pdu.Parse(b)
			if creds, ok := m.(*pdu.Creds); err != nil || !ok || from != 7 || len(creds.Creds) != 1 || creds.Creds[0] != pdu.VersionCred(pdu.FeatureSecure) {
				t.Errorf("the server got %+v from %d, %v", m, from, err)
			}
		})
	}
}

// A client has the features that are in the greeting.
func TestGreeting(t *testing.T) {
	const want = pdu.FeatureSecure | pdu.FeatureHighRes
	c, s := pair(t, "")
	s.send(&pdu.Error{Greeting: true, Info: pdu.GreetingInfo(want)})
	if got, err := c.Greeting(); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// The address of a client can be chosen, PDUs stay valid, and a notice is returned before
// the reply.
func TestDo(t *testing.T) {
	c, s := pair(t, "127.0.0.2")
	if addr := s.RemoteAddr().(*net.TCPAddr).IP.String(); addr != "127.0.0.2" {
		t.Errorf("from %s", addr)
	}
	ids := []pdu.PMID{pdu.NewPMID(2, 0, 3)}
	s.send(&pdu.Error{Code: pdu.StateAddAgent}, &pdu.PMNSIDs{Status: 1, PMIDs: ids}, &pdu.PMNSIDs{Status: 2, PMIDs: make([]pdu.PMID, 1)})
	first, err := c.Do(&pdu.Fetch{PMIDs: ids})
	if e, ok := first.(*pdu.Error); err != nil || !ok || e.Code != pdu.StateAddAgent {
		t.Errorf("got %+v, %v", first, err)
	}
	second, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(); err != nil {
		t.Fatal(err)
	}
	if r, ok := second.(*pdu.PMNSIDs); !ok || r.Status != 1 || r.PMIDs[0] != ids[0] {
		t.Errorf("got %+v", second)
	}
	if m, err := s.Next(); err != nil || m.Type() != pdu.TypeFetch {
		t.Errorf("the server got %+v, %v", m, err)
	}
	if _, err := Dial("tcp4", "127.0.0.1:1", "nowhere"); err == nil {
		t.Error("connected from no address")
	}
}
