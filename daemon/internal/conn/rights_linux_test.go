package conn

import (
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// lingerTime is how long the close of a slowSocket blocks, unless the test ends: longer
// than a test may take.
const lingerTime = time.Hour

// slowSocket returns the only descriptor of a TCP socket whose close blocks: it
// has SO_LINGER, and its peer does not read.
func slowSocket(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // resets the connection: a close that blocks returns
		peer.(*net.TCPConn).SetLinger(0)
		peer.Close()
	})
	fd := -1
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	}
	conn.Close()
	if err != nil {
		t.Fatal(err)
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10)
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(lingerTime / time.Second)})
	for b := make([]byte, 64<<10); err == nil; {
		_, err = unix.Write(fd, b)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	return fd
}

// pass sends b with the last descriptor of a slowSocket.
func (p *peer) pass(b string, flags int) {
	p.h.t.Helper()
	p.passLast(slowSocket(p.h.t), b, flags)
}

// passLast sends b with a descriptor and closes that.
func (p *peer) passLast(last int, b string, flags int) {
	p.h.t.Helper()
	raw, err := p.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		p.h.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		// The descriptors that all processes of an ordinary user have passed, and which are not
		// received yet, may not be more than its limit of descriptors (unix(7), ETOOMANYREFS).
		testutil.Until(testutil.Hangs, func() bool {
			err = unix.Sendmsg(int(fd), []byte(b), unix.UnixRights(last), nil, flags)
			return err != unix.ETOOMANYREFS
		})
	})
	if err != nil { // it was not sent, so our close would block
		unix.SetsockoptLinger(last, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
	unix.Close(last) // the one in the message is the last now
	if err != nil && err != unix.EPIPE {
		p.h.t.Fatal(err)
	}
}

// A client that passes descriptors is disconnected, whenever it does so, and no other client
// waits for the close of what it has passed.
func TestPassedDescriptors(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(p *peer)
		any  bool // the session may end with any error
	}{
		{"before it is accepted", func(p *peer) {
			c, err := net.Dial(p.h.network, p.h.addr)
			if err != nil {
				p.h.t.Fatal(err)
			}
			p.conn = c
			p.pass("xy", 0)
			p.s = <-p.h.newClient
		}, false},
		{"before any input", func(p *peer) { p.pass("x", 0) }, false},
		{"after the first input", func(p *peer) { p.ask("x"); p.pass("xy", 0) }, false},
		{"after a request", func(p *peer) { p.ask("xy"); p.pass("xy", 0) }, false},
		{"when it is idle", func(p *peer) { p.ask("xy"); p.h.parked(2); p.pass("xy", 0) }, false},
		{"behind a request", func(p *peer) {
			p.ask("xy")
			p.conn.Write([]byte("xy"))
			p.pass("xy", 0)
		}, false},
		{"in the middle of a request", func(p *peer) { p.ask("a+"); p.pass("xy", 0) }, false},
		{"as an urgent byte", func(p *peer) {
			p.ask("xy")
			p.pass("x", unix.MSG_OOB)
		}, true}, // some kernels drop the descriptors of an urgent byte, and it is a byte like others
		{"in blocking-read mode", func(p *peer) { p.blocking(); p.pass("xy", 0) }, false},
		{"as an urgent byte in blocking-read mode", func(p *peer) { p.blocking(); p.pass("x", unix.MSG_OOB) }, true},
		{"behind a request in blocking-read mode", func(p *peer) {
			p.blocking()
			p.conn.Write([]byte("xy"))
			p.pass("xy", 0)
		}, false},
		{"when it is interrupted", func(p *peer) {
			p.ask("xy")
			p.s.c.Interrupt(errTest)
			p.expect(lastText)
			p.pass("xy", 0)
		}, true},
		{"before it is interrupted", func(p *peer) { // the close has it to free
			p.ask("xy")
			p.h.serving.Lock()
			defer p.h.serving.Unlock()
			p.conn.Write([]byte("xy"))
			p.pass("xy", 0)
			p.s.c.Interrupt(errTest)
		}, true},
		{"without descriptors to spare", func(p *peer) {
			p.ask("xy")
			slow := slowSocket(p.h.t)
			var had unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
				p.h.t.Fatal(err)
			}
			defer unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: had.Max}); err != nil {
				p.h.t.Fatal(err)
			}
			p.passLast(slow, "xy", 0)
			<-p.s.ended
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, k kind) {
				if !k.rights || k.tls != 0 {
					return
				}
				h := newHarness(t, k, 100)
				other, p := h.dial(), h.dial()
				other.ask("xy")
				tt.play(p)
				if tt.any {
					p.conn.Close()
				}
				<-p.s.ended
				if !tt.any && p.s.err != ErrRights {
					t.Errorf("ended with %v, want %v", p.s.err, ErrRights)
				}
				for range 10 {
					other.ask("xy")
					h.dial().ask("xy")
				}
			})
		})
	}
}

// A thousand clients, with a message each whose close blocks, take a few threads, and
// another client is served.
func TestManyPassDescriptors(t *testing.T) {
	const many = 1000
	h := newHarness(t, kind{network: "unix", rights: true}, 100)
	other := h.dial()
	other.ask("xy")
	threads := func() int {
		list, _ := os.ReadDir("/proc/self/task")
		return len(list)
	}
	before := threads()
	var wg sync.WaitGroup
	var all []*peer
	peers := make(chan *peer, many)
	for range 8 {
		wg.Go(func() {
			for p := range peers {
				p.pass("xy", 0)
			}
		})
	}
	for i := range many {
		p := h.dial()
		if i%2 > 0 {
			p.ask("x")
		}
		peers <- p
		all = append(all, p)
		if i%100 == 0 {
			other.ask("xy")
		}
	}
	close(peers)
	wg.Wait()
	for _, p := range all {
		<-p.s.ended
	}
	for range 10 {
		other.ask("xy")
		h.dial().ask("xy")
	}
	if n := threads() - before; n > 60 {
		t.Errorf("%d more threads", n)
	}
}
