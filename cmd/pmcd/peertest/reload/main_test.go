// Package reload tests what an admin does to a pmcd that runs, and what its log
// says of it, beside PCP's pmcd.
package reload

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// start starts a pmcd that the test may stop itself.
func start(t *testing.T, path string, c peer.Config) (d *peer.Daemon, stop func()) {
	t.Helper()
	d, err := peer.Start(path, c)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Log(d.Report())
		}
	})
	return d, stop
}

// A conn speaks to pmcd.
type conn struct {
	t *testing.T
	net.Conn
	r *pdu.Reader
}

// connect connects to the Unix socket or, if from is not "", from that address
// to the port. It reads the greeting.
func connect(t *testing.T, d *peer.Daemon, from string) (c *conn, greeting *pdu.Error) {
	t.Helper()
	network, addr := "unix", d.Sock
	var dialer net.Dialer
	if from != "" {
		network, addr = "tcp4", d.Host(peer.TCP4)
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	nc, err := dialer.DialContext(t.Context(), network, addr)
	if errors.Is(err, syscall.ECONNRESET) { // C pmcd resets a connection that it refuses
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	c = &conn{t, nc, pdu.NewReader(nc, 0)}
	m, err := c.next()
	if err != nil {
		return c, nil
	}
	return c, m.(*pdu.Error)
}

// dial is connect, and the client's greeting and profile.
func dial(t *testing.T, d *peer.Daemon) *conn {
	t.Helper()
	c, _ := connect(t, d, "")
	c.send(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}, &pdu.Profile{})
	return c
}

func (c *conn) send(ms ...pdu.Message) {
	c.t.Helper()
	var b []byte
	var err error
	for _, m := range ms {
		if b, err = pdu.Append(b, 0, m); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) next() (pdu.Message, error) {
	b, err := c.r.Next()
	if err != nil {
		return nil, err
	}
	_, m, err := pdu.Parse(b)
	return m, err
}

// do sends a request and returns the answer.
func (c *conn) do(m pdu.Message) pdu.Message {
	c.t.Helper()
	c.send(m)
	reply, err := c.next()
	if err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	return reply
}

// fetch returns the values of metrics without instances, and the state changes
// that came before.
func (c *conn) fetch(ids ...pdu.PMID) (values string, changes pdu.Errno) {
	c.t.Helper()
	m := c.do(&pdu.Fetch{PMIDs: ids})
	if e, ok := m.(*pdu.Error); ok && e.Code > 0 {
		changes = e.Code
		var err error
		if m, err = c.next(); err != nil {
			c.t.Fatal(err)
		}
	}
	switch m := m.(type) {
	case *pdu.Error:
		return m.Code.Name(), changes
	case *pdu.Result:
		words := make([]string, len(m.Sets))
		for i, vs := range m.Sets {
			switch {
			case vs.Err != 0:
				words[i] = vs.Err.Name()
			case len(vs.Values) > 0 && vs.Values[0].Block == nil:
				words[i] = fmt.Sprint(vs.Values[0].Word)
			default:
				words[i] = fmt.Sprintf("[%d values]", len(vs.Values))
			}
		}
		return strings.Join(words, " "), changes
	}
	c.t.Fatalf("%v in reply to a fetch", m.Type())
	return "", 0
}

// ended waits until the daemon has closed the connection.
func (c *conn) ended() {
	if c != nil {
		io.Copy(io.Discard, c.Conn)
	}
}

// Metrics of pmcd's own agent.
var (
	sighups = pdu.NewPMID(2, 0, 22)
	seqnum  = pdu.NewPMID(2, 0, 24)
)

// hangup sends SIGHUP and waits until pmcd has done what that asks for.
func hangup(t *testing.T, d *peer.Daemon) {
	t.Helper()
	c := dial(t, d)
	defer c.Close()
	before, _ := c.fetch(sighups)
	if err := d.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !peer.Until(30*time.Second, func() bool {
		now, _ := c.fetch(sighups)
		return now != before
	}) {
		t.Fatal("SIGHUP has no effect")
	}
}

// write replaces a file of the daemon's, with a time that it had never before.
func write(t *testing.T, d *peer.Daemon, name, text string) {
	t.Helper()
	path := filepath.Join(d.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	touch(t, path)
}

var touched = time.Now()

func touch(t *testing.T, path string) {
	t.Helper()
	touched = touched.Add(time.Second)
	if err := os.Chtimes(path, touched, touched); err != nil {
		t.Fatal(err)
	}
}
