// Package reload tests what an admin does to a pmcd that runs, and what its log
// says of it, beside PCP's pmcd.
package reload

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
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
	*pmcdtest.Client
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
	c = &conn{t, pmcdtest.NewClient(nc)}
	m, err := c.Next()
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
	if err := c.Send(ms...); err != nil {
		c.t.Fatal(err)
	}
}

// do sends a request and returns the next PDU, which may be state changes.
func (c *conn) do(m pdu.Message) pdu.Message {
	c.t.Helper()
	c.send(m)
	reply, err := c.Next()
	if err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	return reply
}

// fetch returns a word for each metric (see pmcdtest.Words), and the state changes that
// came before.
func (c *conn) fetch(ids ...pdu.PMID) (values string, changes pdu.Errno) {
	c.t.Helper()
	sets, changes, err := c.Fetch(ids...)
	if e := pdu.Errno(0); errors.As(err, &e) {
		return e.Name(), changes
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return pmcdtest.Words(sets), changes
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
