package trace

import (
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	app "github.com/gopcp/pmcd/agents/trace"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/tracepdu"
)

// On a host whose own name has an address that is no loopback address, clients connect to
// that, as libpcp_trace does, and are on this host all the same. An address that is not
// that of the connection's other end is another host's.
func TestPeerHostAddress(t *testing.T) {
	if !testutil.InOwnNetwork(t) {
		return
	}
	ip := testutil.NeedProgram(t, "ip")
	testutil.Run(t, ip, "link", "add", "name", "own", "type", "bridge")
	for _, addr := range []string{"10.77.0.1/24", "10.77.0.2/24"} {
		testutil.Run(t, ip, "addr", "add", addr, "dev", "own")
	}
	testutil.Run(t, ip, "link", "set", "own", "up")
	l, err := net.ListenTCP("tcp", new(net.TCPAddr)) // all addresses
	if err != nil {
		t.Fatal(err)
	}
	all, err := newTrace(Domain, Options{Listener: l, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.open(Domain); err != nil {
		t.Fatal(err)
	}
	defer all.close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	t.Setenv("PCP_TRACE_HOST", "10.77.0.1")
	t.Setenv("PCP_TRACE_PORT", port)

	c := app.New(app.Options{})
	defer c.Close()
	if err := c.Point(t.Context(), "go"); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command(testutil.NeedPeer(t, "pmtrace"), "pmtrace").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	testutil.Eventually(t, "points of both clients", func() bool {
		var v view
		all.totals.read(tracepdu.Point, &v)
		return len(v) == 2
	})
	for local, want := range map[string]int32{"10.77.0.1": 1, "10.77.0.2": tracepdu.ErrPermission} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
		conn, err := d.Dial("tcp4", net.JoinHostPort("10.77.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(testutil.Hangs))
		if n := (&client{t, conn}).ack(); n != want {
			t.Errorf("from %s: got %d, want %d", local, n, want)
		}
		conn.Close()
	}
}
