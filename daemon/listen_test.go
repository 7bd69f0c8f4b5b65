package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// A client gets all of an answer at its own pace, also if it has no more to ask
// or the daemon ends meanwhile.
func TestAnswerOutlivesSession(t *testing.T) {
	const size = 1 << 20 // more than the client's side takes
	for name, end := range map[string]func(*harness, net.Conn){
		"half closed": func(_ *harness, c net.Conn) { c.(*net.TCPConn).CloseWrite() },
		"shutdown":    func(r *harness, _ net.Conn) { r.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t, nil, map[int]func(wire.Conn){240: serveAgent(long{&agentsettest.Tester{Domain: 240}, size})})
			dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
			}}
			conn, err := dialer.Dial("tcp", r.tcp)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(pdutest.Timeout))
			c := &client{t, pdutest.New(conn)}
			c.recv()
			c.send(pdutest.Creds(0), &pdu.Profile{},
				&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 2)}}, &pdu.PMNSChild{Name: "t"})
			testutil.Eventually(t, "answered", func() bool { return r.counts.Sent(pdu.TypePMNSNames) == 1 })
			end(r, conn)
			testutil.Eventually(t, "session over", func() bool { return r.sessions.NumClients() == 0 })
			set := c.recv().(*pdu.Result).Sets[0]
			if len(set.Values) != 1 || len(set.Values[0].Block) <= size {
				t.Errorf("%d values, %v", len(set.Values), set.Err)
			}
		})
	}
}

// long is a tester whose values are strings of so many bytes.
type long struct {
	*agentsettest.Tester
	size int
}

func (a long) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		w.Begin(id)
		w.String(-1, strings.Repeat("x", a.size))
	}
	return nil
}

// If Run cannot begin to accept clients, it leaves no socket behind.
func TestRunClosesListeners(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "sock")
	cfg := minimalConfig(t)
	var err error
	if cfg.Listeners, err = Listen([]string{"127.0.0.1"}, []int{0}, sock); err != nil {
		t.Fatal(err)
	}
	defer cfg.Listeners.Close()
	d, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.reloader.LoadNames(t.Context()); err != nil { // now, as Run can open no file
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err = d.Run(t.Context())
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Fatalf("Run: %v", err)
	}
	if _, err := os.Lstat(sock); !os.IsNotExist(err) {
		t.Errorf("the Unix socket is left: %v", err)
	}
}
