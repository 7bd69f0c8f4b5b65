package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
)

// The message of a client stays as it is while the login waits for its turn, also if the client
// has sent more, or sends more then.
func TestLoginKeepsMessage(t *testing.T) {
	const message = "PLAIN\x00\x00alice\x00correct horse"
	login, err := pdu.Append(nil, 7, &pdu.Attr{Value: []byte(message)})
	if err != nil {
		t.Fatal(err)
	}
	more := bytes.Repeat([]byte("x"), len(login))
	for _, together := range []bool{true, false} {
		c := &fakeConn{peer: conn.Peer{Unix: true}, unread: login}
		if together {
			c.unread = append(c.unread, more...)
		}
		srv := newServer(t, routes.New(nil, nil), func(c *Config) { c.LoginTime = time.Hour })
		r := new(requestHistory).acquire()
		r.s = newSession(srv, c)
		in, err := r.nextResponse()
		if err != nil {
			t.Fatal(err)
		}
		if !together {
			c.unread = more
		}
		if err := r.checkClient(); err != nil {
			t.Fatal(err)
		}
		if string(in) != message {
			t.Errorf("together %v: the message is now %q, want %q", together, in, message)
		}
		if !bytes.Equal(r.in[r.next:], more) {
			t.Errorf("together %v: the next input is %q, want %q", together, r.in[r.next:], more)
		}
	}
}
