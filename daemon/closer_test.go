package daemon

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// Clients that come and go in all ways, some with descriptors, leave nothing open.
func TestStormOfClients(t *testing.T) {
	r := newHarness(t, withRights(t), nil)
	r.awaitStarts()
	r.acceptor.Load().SetLimit(50)
	other := r.dial()
	words, err := pdu.Append(nil, 0, hello)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(conn net.Conn, b []byte, flags int) {
		if raw, err := conn.(*net.UnixConn).SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.Sendmsg(int(fd), b, unix.UnixRights(0), nil, flags) })
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for n := range 50 {
				conn, err := net.Dial("unix", r.unix)
				if err != nil {
					t.Error(err)
					return
				}
				switch (i + n) % 6 {
				case 1:
					conn.Write(words)
				case 2:
					conn.Write(words[:7])
				case 3:
					conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
				case 4:
					pass(conn, words, 0)
				case 5:
					conn.Write(words)
					pass(conn, words[:1], unix.MSG_OOB)
				}
				if n%3 == 0 {
					conn.SetReadDeadline(time.Now().Add(testutil.Hangs))
					conn.Read(make([]byte, 20))
				}
				conn.Close()
			}
		})
	}
	for range 100 {
		other.ask()
	}
	wg.Wait()
	testutil.Eventually(t, "all have gone", func() bool { return r.sessions.NumClients() == 1 && r.acceptor.Load().Stats().Open == 1 })
	other.ask()
}
