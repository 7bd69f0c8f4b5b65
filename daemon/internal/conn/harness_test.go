package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/testutil"
)

// A kind is an implementation of Conn and a kind of socket.
type kind struct {
	name     string
	network  string
	portable bool
	rights   bool // descriptors may be queued
}

var kinds = []kind{
	{"tcp", "tcp", false, false},
	{"unix", "unix", false, false},
	{"unix with descriptors", "unix", false, true},
	{"portable tcp", "tcp", true, false},
	{"portable unix", "unix", true, false},
}

// A harness is an Acceptor whose Sessions write back what they read.
type harness struct {
	*Acceptor
	t         testing.TB
	kind      kind
	network   string
	addr      string
	readSize  int
	stop      func() // ends Run and waits for all connections
	newClient chan *echo

	mu    sync.Mutex // guards the following
	lines []string   // of the log
}

// calmTime is so short that a test can wait for it, and long enough for a few
// requests.
const calmTime = 2 * time.Millisecond

func newHarness(t testing.TB, k kind, readSize int) *harness {
	t.Helper()
	testutil.CountLeaks(t)
	path := filepath.Join(t.TempDir(), "sock")
	ls, err := Listen([]string{"127.0.0.1"}, []int{0}, path)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, kind: k, network: k.network, addr: path, readSize: readSize, newClient: make(chan *echo, 2000)}
	ls.Control(func(addr net.Addr, fd uintptr) {
		if addr.Network() == "unix" {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, btoi(k.rights)); err != nil && err != unix.ENOPROTOOPT {
				t.Fatal(err)
			}
		} else if k.network == "tcp" {
			h.addr = addr.String()
		}
	})
	h.Acceptor, err = NewAcceptor(Config{Listeners: ls, Handler: h, Warn: h.warnLine, Portable: k.portable, CalmTime: calmTime})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ls.Close()
	})
	t.Cleanup(func() {
		h.stop()
		h.Kill()
		h.Wait(10 * time.Second)
		if n := h.Stats().Open; n != 0 {
			t.Errorf("%d connections are open at the end", n)
		}
	})
	return h
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (h *harness) warnLine(_, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, text)
}

// greeting is what each client reads first.
const greeting = "hello"

// lastText is what an interrupted client reads last.
const lastText = "bye"

var errTest = errors.New("interrupted by the test")

func (h *harness) Accept(c Conn) (Session, []byte) {
	s := &echo{h: h, c: c, ended: make(chan struct{})}
	h.newClient <- s
	return s, []byte(greeting)
}

// An echo writes back what it reads.
type echo struct {
	h     *harness
	c     Conn
	ended chan struct{} // closed at the end; then the following may be read

	got []byte
	err error
}

// First handles a single byte.
func (s *echo) First(in []byte) ([]byte, bool) {
	if len(in) > 1 {
		return nil, false
	}
	s.got = append(s.got, in...)
	return append([]byte(nil), in...), true
}

func (s *echo) Disconnected() { s.end(io.EOF) }

func (s *echo) Serve() {
	for {
		err := s.c.Wait()
		if err == ErrParked {
			return
		}
		if err == nil {
			err = s.turn()
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// turn reads what there is, and more if the last byte is a plus sign. After a minus
// sign it reads with a deadline that has passed, and writes a period.
func (s *echo) turn() error {
	b := make([]byte, s.h.readSize)
	for {
		n, err := s.c.Read(b)
		s.got = append(s.got, b[:n]...)
		if n > 0 {
			_, err = s.c.Write(b[:n])
		}
		if err != nil {
			return err
		}
		switch b[n-1] {
		case '+':
		case '-':
			s.c.SetReadDeadline(past)
			if n, err := s.c.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				s.h.t.Errorf("read %d bytes, %v; want a timeout", n, err)
			}
			_, err := s.c.Write([]byte("."))
			return err
		default:
			return nil
		}
	}
}

func (s *echo) end(err error) {
	s.err = err
	var last []byte
	if err == errTest {
		last = []byte(lastText)
	}
	s.c.Close(last)
	close(s.ended)
}

// A peer is a client of a harness.
type peer struct {
	h    *harness
	conn net.Conn
	s    *echo
}

func (h *harness) dial() *peer {
	h.t.Helper()
	c, err := net.Dial(h.network, h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	p := &peer{h, c, <-h.newClient}
	p.expect(greeting)
	return p
}

// expect reads text.
func (p *peer) expect(text string) {
	p.h.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(p.conn, b); err != nil || string(b) != text {
		p.h.t.Fatalf("read %q, %v; want %q", b[:n], err, text)
	}
}

// ask sends text and reads it.
func (p *peer) ask(text string) {
	p.h.t.Helper()
	if _, err := p.conn.Write([]byte(text)); err != nil {
		p.h.t.Fatal(err)
	}
	p.expect(text)
}

// disconnected fails the test unless the connection ends without another byte.
func (p *peer) disconnected() {
	p.h.t.Helper()
	if n, err := p.conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		p.h.t.Errorf("read %d bytes, %v; want the end", n, err)
	}
}

// parked waits until n connections are idle, if there are idle ones.
func (h *harness) parked(n int) {
	h.t.Helper()
	if !h.kind.portable {
		testutil.Eventually(h.t, "idle connections", func() bool { return h.Stats().Idle == n })
	}
}

// blocking asks until p is in blocking-read mode, if there is one.
func (p *peer) blocking() {
	p.h.t.Helper()
	if p.h.kind.portable {
		return
	}
	testutil.Eventually(p.h.t, "in blocking-read mode", func() bool {
		for range 2 * burstLength {
			p.ask("xy")
		}
		return p.s.c.Exclusive()
	})
}
