package daemon

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A helloConn keeps what a client of TLS writes first, and has no input.
type helloConn struct {
	net.Conn
	hello []byte
}

func (c *helloConn) Write(b []byte) (int, error) {
	c.hello = append(c.hello, b...)
	return len(b), nil
}

func (c *helloConn) Read([]byte) (int, error) { return 0, io.EOF }

// clientHello returns the first message of a handshake.
func clientHello() []byte {
	c := new(helloConn)
	tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
	return c.hello
}

// A thousand handshakes at once, of which half never finish or are none: the other half
// succeeds, and clients without TLS are served meanwhile. At the end nothing is left, for
// which the harness looks.
func TestTLSThousandHandshakes(t *testing.T) {
	const many = 1000
	const limit = 10 * time.Minute // a machine may be busy
	r := newHarness(t, func(c *Config) {
		withTLS(t, false)(c)
		c.RequestTimeout = limit
	}, nil)
	other := r.dial()
	other.Conn.SetDeadline(time.Now().Add(limit))
	hello := clientHello()
	var good, bad, ended []*client
	for i := range many {
		c := r.connect("tcp", r.tcp)
		c.Conn.SetDeadline(time.Now().Add(limit))
		c.recv()
		c.sendBytes(credsPDU(t, secureFlags))
		if m := show(c.recv()); m != pdu.Errno(0).Name() {
			t.Fatalf("acknowledgement %s", m)
		}
		switch i % 10 {
		case 0: // silent
		case 1:
			c.sendBytes(hello[:1])
		case 2:
			c.sendBytes(hello[:len(hello)/2])
		case 3: // does not answer
			c.sendBytes(hello)
		case 4: // a record that is no handshake
			c.sendBytes(append([]byte{22, 3, 3, 0, 40}, make([]byte, 40)...))
			ended = append(ended, c)
			continue
		default:
			good = append(good, c)
			continue
		}
		bad = append(bad, c)
	}
	errs := make([]error, len(good))
	var all sync.WaitGroup
	for i, c := range good {
		all.Go(func() { errs[i] = c.secure(nil, nil, new(tls.Config)) })
	}
	for range 20 {
		other.good()
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, c := range good {
		c.good()
	}
	for _, c := range ended {
		if _, err := io.ReadAll(c.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a record that is no handshake has not ended the connection")
		}
	}
	testutil.Eventually(t, "the others are there", func() bool { return r.sessions.NumClients() == 1+len(good)+len(bad) })
	for _, c := range bad {
		c.Conn.Close()
	}
	testutil.Eventually(t, "those that have not finished are gone", func() bool { return r.sessions.NumClients() == 1+len(good) })
	for _, c := range good {
		c.good()
		c.Conn.(*tls.Conn).NetConn().Close()
	}
	testutil.Eventually(t, "all are gone", func() bool { return r.sessions.NumClients() == 1 })
	other.good()
}
