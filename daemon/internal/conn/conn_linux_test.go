package conn

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/rawio"
	"github.com/gopcp/pmcd/internal/testutil"
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

// While the Handler is busy, Wait leaves nearly all input in the socket, whether the
// connection was served before or not.
func TestWaitLeavesInput(t *testing.T) {
	const size = 10_000
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var h harness
	h.alwaysBusy.Store(true)
	for _, served := range []bool{false, true} {
		c := newLinuxConn(&epollLoop{a: &Acceptor{handler: &h}}, fds[0])
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
				before := c.loop.batches.Load()
				if _, err := io.WriteString(p.conn, strings.Repeat("x", size/2)); err != nil {
					t.Fatal(err)
				}
				testutil.Eventually(t, "input", func() bool { return c.loop.batches.Load() > before })
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

// A session ends when its idle client disconnects, even if another process has its descriptor,
// as a child has for a moment.
func TestDisconnectedIsForgotten(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		h.parked(1)
		fd := p.s.c.FD()
		child, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(child)
		if !watched(fd) {
			t.Error("the idle connection is not watched")
		}
		p.conn.Close()
		<-p.s.ended
		if watched(fd) {
			t.Error("the connection is still watched")
		}
	})
}

// watched reports whether an epoll set has the descriptor fd.
func watched(fd int) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, _ := os.Readlink(l); to != "anon_inode:[eventpoll]" {
			continue
		}
		info, _ := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(l))
		if strings.Contains(string(info), fmt.Sprintf("tfd: %8d ", fd)) {
			return true
		}
	}
	return false
}

// Connections have their options from the listening socket.
func TestConnectionOptions(t *testing.T) {
	fd := newHarness(t, kinds[0], 100).dial().s.c.FD()
	for _, o := range []struct {
		what              string
		level, name, want int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"SO_LINGER, l_onoff", unix.SOL_SOCKET, unix.SO_LINGER, 1},
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		if got, err := unix.GetsockoptInt(fd, o.level, o.name); err != nil || got != o.want {
			t.Errorf("%s: got %d, %v, want %d", o.what, got, err, o.want)
		}
	}
}
