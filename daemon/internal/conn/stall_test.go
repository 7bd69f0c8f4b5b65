package conn

import (
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Without descriptors no client is accepted. That is a problem until the client that
// waits is accepted.
func TestNoDescriptors(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			h := newHarness(t, k, 100)
			first := h.dial()
			first.ask("xy")
			// A client that can connect without a new descriptor.
			family, to := unix.AF_UNIX, unix.Sockaddr(&unix.SockaddrUnix{Name: h.addr})
			if k.network == "tcp" {
				addr := netip.MustParseAddrPort(h.addr)
				family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
			}
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			late := os.NewFile(uintptr(fd), "client")
			defer late.Close()

			var had unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
				t.Fatal(err)
			}
			restore := func() {
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
					t.Fatal(err)
				}
			}
			defer restore()
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: had.Max}); err != nil {
				t.Fatal(err)
			}
			if err := unix.Connect(fd, to); err != nil {
				t.Fatal(err)
			}
			want := []string{"no client can be accepted: too many open files; those that are connected are served, and others wait"}
			testutil.Eventually(t, "accept fails", func() bool { return slices.Equal(h.Problems(), want) })
			testutil.Eventually(t, "Changed is called", func() bool { return h.changes.Load() > 0 })
			testutil.Eventually(t, "it is in the log", func() bool {
				return h.logged("AcceptNewClient: {error}[error no client can be accepted: too many open files")
			})
			first.ask("xy")
			before := h.changes.Load()
			restore()
			conn, err := net.FileConn(late)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(testutil.Hangs))
			if _, err := io.ReadFull(conn, make([]byte, len(greeting))); err != nil {
				t.Fatalf("the client that waited: %v", err)
			}
			testutil.Eventually(t, "there is no problem", func() bool { return len(h.Problems()) == 0 })
			testutil.Eventually(t, "Changed is called", func() bool { return h.changes.Load() > before })
		})
	}
}

// As many clients as there may be are a problem as long as they are connected. Changed may use
// any connection. Another client waits until one of them has gone.
func TestFull(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			var second atomic.Pointer[echo]
			h := newHarness(t, k, 100, func(h *harness) {
				h.changed = func() {
					if s := second.Load(); s != nil {
						s.c.FD()
					}
				}
			})
			h.SetLimit(2)
			h.dial()
			if got := h.Problems(); len(got) != 0 || h.changes.Load() != 0 {
				t.Errorf("one client: %q, %d changes", got, h.changes.Load())
			}
			c := h.dial()
			second.Store(c.s)
			late, err := net.Dial(h.network, h.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close()
			want := []string{"2 clients are connected, as many as RLIMIT_NOFILE allows beside what agents need; others wait until some leave; raise it (LimitNOFILE=, ulimit -n) and restart pmcd"}
			testutil.Eventually(t, "there is a problem", func() bool { return slices.Equal(h.Problems(), want) && h.changes.Load() > 0 })
			testutil.Eventually(t, "the log says that a client waits", func() bool { return h.logged("AcceptNewClient: {error}[error 2 clients are connected, ") })
			c.ask("xy")
			before := h.changes.Load()
			c.conn.Close()
			(&peer{h, late, <-h.newClient}).expect(greeting)
			late.Close()
			testutil.Eventually(t, "there is no problem", func() bool { return len(h.Problems()) == 0 && h.changes.Load() > before })
		})
	}
}

// A stall ends when a client is accepted, or when no client waits any more.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stall
		var expired atomic.Int32
		begin := func(why string, isNew bool) {
			t.Helper()
			if got := s.begin(why, func() { expired.Add(1) }); got != isNew {
				t.Errorf("begin %q: new %v, want %v", why, got, isNew)
			}
		}
		check := func(why string, times int32) {
			t.Helper()
			synctest.Wait()
			if got := s.reason(); got != why || expired.Load() != times {
				t.Errorf("%q, expired %d times; want %q and %d", got, expired.Load(), why, times)
			}
		}
		check("", 0)
		begin("a", true)
		time.Sleep(maxPause)
		begin("a", false)
		time.Sleep(maxPause + maxPause/2)
		check("a", 0)
		begin("b", true)
		check("b", 0)
		time.Sleep(2*maxPause + 1)
		check("", 1)
		begin("b", true)
		if !s.end() || s.end() {
			t.Error("end reports whether there was a stall")
		}
		time.Sleep(3 * maxPause)
		check("", 1)
	})
}
