package conn

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Blocking-read mode ends in all ways, no client loses anything by it, and the next one can
// enter it. TestEnds has the ways in which a connection in the mode ends.
func TestBlockingModeEnds(t *testing.T) {
	nonblocking := func(p *peer) {
		p.h.t.Helper()
		testutil.Eventually(p.h.t, "not in blocking-read mode", func() bool { return !p.h.Stats().Exclusive })
	}
	large := func(p *peer) {
		p.h.t.Helper()
		if _, err := io.CopyN(io.Discard, p.conn, largeReply); err != nil {
			p.h.t.Error(err)
		}
	}
	for _, tt := range []struct {
		name string
		then func(p, other *peer)
		gone bool // p is, afterwards
	}{
		{"a pause", func(p, _ *peer) { nonblocking(p) }, false},
		{"another client", func(p, other *peer) {
			other.ask("xy")
			p.ask("xy")
			if p.h.Stats().Exclusive {
				p.h.t.Error("still in blocking-read mode")
			}
		}, false},
		{"a request in two pieces", func(p, _ *peer) {
			p.ask("x+")
			nonblocking(p)
			p.ask("y")
		}, false},
		{"a reply that is not read", func(p, other *peer) {
			io.WriteString(p.conn, "x*")
			nonblocking(p)
			other.ask("xy")
			p.expect("x*")
			large(p)
		}, false},
		{"interrupted before a reply that is not read", func(p, _ *peer) {
			io.WriteString(p.conn, "x*")
			nonblocking(p)
			p.s.c.Interrupt(errTest)
			p.expect("x*")
			large(p)
			p.expect(lastText)
			p.disconnected()
		}, true},
		{"a reset", func(p, _ *peer) {
			io.WriteString(p.conn, "xyxyxyxyxyxy")
			if tcp, ok := p.conn.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			p.conn.Close()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				h := newHarness(t, k, 100)
				p, other := h.dial(), h.dial()
				p.blocking()
				tt.then(p, other)
				nonblocking(p)
				if tt.gone {
					p.conn.Close()
					testutil.Eventually(t, "it has gone", func() bool { return h.Stats().Open == 1 })
				} else {
					p.blocking()
					nonblocking(p)
				}
				other.blocking()
			})
		})
	}
}

// A client that pauses for a moment stays in blocking-read mode until its reads have ended
// without input too often. One that asks now and then leaves it, however short its pauses
// are: each wait costs more than the request.
func TestPausesInBlockingMode(t *testing.T) {
	const longest = maxReadTimeouts * recvTimeout
	eachKind(t, func(t *testing.T, k kind) {
		if k.busy { // the sleeps take a second
			return
		}
		p := newHarness(t, k, 100).dial()
		testutil.Eventually(t, "still in blocking-read mode after a pause", func() bool {
			since := time.Now() // the last request comes later
			p.blocking()
			time.Sleep(longest / 4)
			stayed := p.s.c.Exclusive()
			if took := time.Since(since); !stayed && took < longest {
				t.Fatalf("left after %v", took)
			}
			p.ask("xy")
			return stayed
		})
		for range 40 {
			time.Sleep(longest / 4)
			p.ask("xy")
		}
		if p.s.c.Exclusive() {
			t.Error("still in blocking-read mode after 40 pauses")
		}
	})
}

// An urgent byte is dropped as it is outside blocking-read mode. Where descriptors may be
// queued it is a byte like others, since what is looked at must be what is taken.
func TestUrgentByteInBlockingMode(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		if k.tls != 0 {
			return
		}
		p := newHarness(t, k, 100).dial()
		raw, err := p.conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		p.blocking()
		raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) })
		if err == unix.EOPNOTSUPP {
			t.Skip("there are none here")
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.s.c.(*linuxConn).rights {
			p.expect("!")
		}
		p.ask("xy")
	})
}

// Without a descriptor to spare no client enters blocking-read mode, and all are served.
func TestBlockingModeWithoutDescriptors(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		p.ask("xy")
		var had unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
			t.Fatal(err)
		}
		limit := func(n uint64) {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: had.Max}); err != nil {
				t.Fatal(err)
			}
		}
		limit(3)
		defer limit(had.Cur)
		for i := range 10 * burstLength {
			if p.ask("xy"); h.Stats().Exclusive {
				t.Fatalf("in blocking-read mode after %d requests", i+1)
			}
		}
		limit(had.Cur)
		p.blocking()
	})
}
