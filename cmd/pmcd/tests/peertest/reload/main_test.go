// Package reload tests what an admin does to a pmcd that runs, and what its log
// says of it, beside PCP's pmcd.
package reload

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pdu/pmapi"
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

// A conn is a client of pmcd.
type conn struct {
	t *testing.T
	*pmapi.Client
}

// dial connects to the Unix socket. Each request may take 2 minutes.
func dial(t *testing.T, d *peer.Daemon) *conn {
	t.Helper()
	c, err := pmapi.Dial(t.Context(), d.Host(peer.Unix), pmapi.Options{Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &conn{t, c}
}

// fetch returns a word for each metric (see pmcdtest.Words), and the state changes that
// pmcd has reported.
func (c *conn) fetch(ids ...pdu.PMID) (values string, changes int32) {
	c.t.Helper()
	values, changes, err := pmcdtest.Words(c.Client, ids...)
	if err != nil {
		c.t.Fatal(err)
	}
	return values, changes
}

// number returns the value of a metric without instances.
func (c *conn) number(id pdu.PMID) int {
	c.t.Helper()
	v, err := pmcdtest.Value(c.Client, id)
	if err != nil {
		c.t.Fatalf("%v: %v", id, err)
	}
	return int(v)
}

// lookup returns the PMID of a name, or why it has none.
func (c *conn) lookup(name string) string {
	c.t.Helper()
	ids, err := c.Lookup(context.Background(), name)
	if err == nil {
		return ids[0].String()
	}
	code, err := pmcdtest.ErrnoName(err)
	if err != nil {
		c.t.Fatal(err)
	}
	return code
}

// control stores a value in pmcd.control.*.
func (c *conn) control(t *testing.T, item int, v uint32) {
	t.Helper()
	if err := c.Store(t.Context(), pmapi.NewValueSet(pdu.NewPMID(2, 0, item), pdu.NoInst, pmapi.ValueOf(v))); err != nil {
		t.Errorf("store to 2.0.%d: %v", item, err)
	}
}

// dialRaw connects to the Unix socket or, if from is not "", from that address to the port.
// The client is nil if the connection was reset, as C pmcd does with
// one that it refuses.
func dialRaw(t *testing.T, d *peer.Daemon, from string) *pdutest.Client {
	t.Helper()
	network, addr := "unix", d.Sock
	if from != "" {
		network, addr = "tcp4", d.Host(peer.TCP4)
	}
	c, err := pdutest.Dial(network, addr, from)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// handshake is dialRaw, and the handshake and profile of a client.
func handshake(t *testing.T, d *peer.Daemon) *pdutest.Client {
	t.Helper()
	c := dialRaw(t, d, "")
	if err := errors.Join(c.Handshake(0), c.Send(&pdu.Profile{})); err != nil {
		t.Fatal(err)
	}
	return c
}

// ended waits until the daemon has closed a connection.
func ended(c *pdutest.Client) {
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
	before := c.number(sighups)
	if err := d.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !peer.Until(peer.Hangs, func() bool { return c.number(sighups) != before }) {
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
