package conn

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/agents/testutil"
)

// An unannounced read copies rawio.MaxSyscallBytes at most, however large the buffer
// is.
func TestReadIsLimited(t *testing.T) {
	const size = 2 * rawio.MaxSyscallBytes
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*size); err != nil {
		testutil.Missing(t, err) // it needs CAP_NET_ADMIN
	}
	if n, err := unix.Write(fds[1], make([]byte, size)); n != size {
		t.Fatal(n, err)
	}
	var c linuxConn
	for range 2 {
		if n, err := c.readNow(uintptr(fds[0]), make([]byte, size)); n != rawio.MaxSyscallBytes || err != nil {
			t.Errorf("got %d bytes, %v, want %d", n, err, rawio.MaxSyscallBytes)
		}
	}
}

// While the acceptor is busy, Wait leaves nearly all input in the socket, whether the
// connection was served before or not.
func TestWaitLeavesInput(t *testing.T) {
	const size = 10_000
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	for _, served := range []bool{false, true} {
		c := newLinuxConn(&epollLoop{a: &Acceptor{busy: func() bool { return true }}}, fds[0], Peer{})
		if c.served = served; c.tryRead(uintptr(fds[0])) {
			t.Error("input before there is any")
		}
		if n, err := unix.Write(fds[1], make([]byte, size)); n != size {
			t.Fatal(n, err)
		}
		if !c.tryRead(uintptr(fds[0])) || cap(c.in) > smallInput || c.buf != nil {
			t.Errorf("served %v: the connection holds %d bytes, want %d at most", served, cap(c.in), smallInput)
		}
		b, total := make([]byte, 2*size), 0
		for total < size {
			n, err := c.Read(b[total:])
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
}

// An idle connection ends by Interrupt even if its client has not read so much that
// the socket takes no more output.
func TestInterruptOfFullSocket(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			const size = 80_000 // in two parts; a Unix socket takes about 200,000 bytes
			h := newHarness(t, k, size)
			p := h.dial()
			c := p.s.c.(*linuxConn)
			if k.tls != 0 {
				p.ask("xy") // the next record may come with the handshake
			}
			for range 2 {
				before := c.loop.turns.Load()
				if _, err := io.WriteString(p.conn, strings.Repeat("x", size/2)); err != nil {
					t.Fatal(err)
				}
				testutil.Eventually(t, "a turn", func() bool { return c.loop.turns.Load() > before })
				h.parked(1)
			}
			c.Interrupt(errTest)
			testutil.Eventually(t, "the end", func() bool { return h.lingering.Load() > 0 || c.FD() < 0 })
			p.conn.Close()
			<-p.s.ended
			if p.s.err != errTest {
				t.Errorf("ended with %v", p.s.err)
			}
		})
	}
}
