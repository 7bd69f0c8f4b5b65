package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A kind is a kind of connection.
type kind struct {
	name    string
	network string
	rights  bool   // descriptors may be queued
	busy    bool   // Busy is true now and then
	tls     uint16 // the version of TLS; 0 is none
}

var kinds = []kind{
	{name: "tcp", network: "tcp"},
	{name: "unix", network: "unix"},
	{name: "unix with descriptors", network: "unix", rights: true},
	{name: "busy tcp", network: "tcp", busy: true},
	{name: "busy unix", network: "unix", rights: true, busy: true},
	{name: "tls tcp", network: "tcp", tls: tls.VersionTLS13},
	{name: "tls unix", network: "unix", rights: true, busy: true, tls: tls.VersionTLS12},
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

	changes atomic.Int32 // calls of Config.Changed
	changed func()       // called by Config.Changed; may be nil
	looks   atomic.Int32 // calls of Busy of a kind that is busy
	tls     TLS

	unread quota.Limit // of the Accounts of Sessions

	alwaysBusy atomic.Bool  // Busy is true
	serving    sync.RWMutex // locked by a test while sessions that have input are to wait
	withInput  atomic.Int32 // how often sessions had input

	// serverTLS returns the configuration of the nth TLS connection, from 1. If atOnce is
	// true, a connection is made secure before it has input, and there is no greeting.
	serverTLS func(n int) *tls.Config
	atOnce    bool
	secures   atomic.Int32 // TLS connections so far
	held      atomic.Int64 // the most that hold was called with
}

// idleTime is so short that a test can wait for it, and long enough for a few
// requests.
const idleTime = 2 * time.Millisecond

func newHarness(t testing.TB, k kind, readSize int, change ...func(h *harness)) *harness {
	t.Helper()
	testutil.CheckLeaks(t)
	path := filepath.Join(t.TempDir(), "sock")
	ls, err := Listen([]string{"127.0.0.1"}, []int{0}, path)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, kind: k, network: k.network, addr: path, readSize: readSize, newClient: make(chan *echo, 2000)}
	h.tls.Timeout = func() time.Duration { return 30 * time.Second }
	h.serverTLS = func(int) *tls.Config { return serverTLS() }
	h.unread.All = 64 << 20
	for _, f := range change {
		f(h)
	}
	ls.Control(func(addr net.Addr, fd uintptr) {
		if addr.Network() == "unix" {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, btoi(k.rights)); err != nil && err != unix.ENOPROTOOPT {
				t.Fatal(err)
			}
		} else if k.network == "tcp" {
			h.addr = addr.String()
		}
	})
	h.Acceptor, err = NewAcceptor(Config{Listeners: ls, Handler: h, Warn: h.warnLine, IdleTime: idleTime,
		Changed: func() {
			h.changes.Add(1)
			if h.changed != nil {
				h.changed()
			}
		}})
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
		if left := h.Wait(time.Minute, 10*time.Second); left > 0 {
			t.Errorf("%d sessions have not ended", left)
		}
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

func (h *harness) warnLine(_, message string, attrs ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprint(message, attrs))
}

// logged reports whether a line of the log contains text.
func (h *harness) logged(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, text) })
}

// greeting is what each client reads first.
const greeting = "hello"

// largeReply is more than the buffers of a socket hold.
const largeReply = 16 << 20

// lastText is what an interrupted client reads last.
const lastText = "bye"

var errTest = errors.New("interrupted by the test")

func (h *harness) Accept(c Conn) (Session, []byte) {
	s := &echo{h: h, c: c, line: c, ended: make(chan struct{}), secured: make(chan struct{})}
	s.client.Evict = func(err error) { c.Interrupt(err); c.Abort() }
	s.unread = h.unread.Open(&s.client)
	h.newClient <- s
	if h.atOnce {
		return s, nil
	}
	return s, []byte(greeting)
}

func (h *harness) Busy() bool { return h.alwaysBusy.Load() || h.kind.busy && h.looks.Add(1)%3 > 0 }

// An echo writes back what it reads.
type echo struct {
	h       *harness
	c       Conn         // of which other goroutines use the Handle
	line    Conn         // c, or what is in its TLS connection
	client  quota.Client // a process of a user with all others
	unread  *quota.Account
	secured chan struct{} // closed when the handshake has succeeded
	waits   atomic.Int32  // calls of BeforeWait
	works   atomic.Int32  // calls of BeforeWork
	ended   chan struct{} // closed at the end; then the following may be read

	got []byte
	err error
}

// First handles a single byte.
func (s *echo) First(in []byte) ([]byte, bool) {
	if len(in) > 1 || s.h.kind.tls != 0 {
		return nil, false
	}
	s.got = append(s.got, in...)
	return append([]byte(nil), in...), true
}

func (s *echo) Disconnected() { s.end(io.EOF) }
func (s *echo) BeforeWait()   { s.waits.Add(1) }

func (s *echo) Unread() *quota.Account { return s.unread }

func (s *echo) BeforeWork() { s.works.Add(1) }

func (s *echo) Serve() {
	for {
		var err error
		if !s.h.atOnce || s.line != s.c {
			err = s.line.Wait()
		}
		if err == ErrParked {
			return
		}
		if err == nil && s.h.kind.tls != 0 && s.line == s.c {
			if err = s.secure(); err == nil {
				continue
			}
		}
		if err == nil {
			if len(s.got)%2 == 0 {
				s.line.Compact()
			}
			s.h.withInput.Add(1)
			s.h.serving.RLock()
			err = s.serveInput()
			s.h.serving.RUnlock()
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// hold accounts for the memory of handshakes.
func (h *harness) hold(n int64) error {
	for old := h.held.Load(); n > old && !h.held.CompareAndSwap(old, n); old = h.held.Load() {
	}
	if n > maxHeld {
		return errHeld
	}
	return nil
}

// maxHeld is more than a usual handshake has in memory.
const maxHeld = 32 << 10

var errHeld = errors.New("too much memory for a handshake")

// secure makes the connection secure. Half of the connections have read some input before.
func (s *echo) secure() error {
	var pending []byte
	if s.h.looks.Add(1)%2 == 0 && !s.h.atOnce {
		pending = make([]byte, 7)
		n, err := s.line.Read(pending)
		if pending = pending[:n]; err != nil {
			return err
		}
	}
	l, err := s.h.tls.Server(s.c, s.h.serverTLS(int(s.h.secures.Add(1))), pending, &fairqueue.Key{Member: 1}, s.h.hold)
	s.line = l
	if err == nil {
		close(s.secured)
	}
	return err
}

// serveInput reads what there is, and more if the last byte is a plus sign. After a minus
// sign it reads with a deadline that has passed, and writes a period. After an asterisk
// it writes largeReply bytes, and after a number sign those of a Source.
func (s *echo) serveInput() error {
	b := make([]byte, s.h.readSize)
	for {
		n, err := s.line.Read(b)
		s.got = append(s.got, b[:n]...)
		if n > 0 {
			_, err = s.line.Write(b[:n])
		}
		if err != nil {
			return err
		}
		switch b[n-1] {
		case '+':
		case '*':
			_, err := s.line.Write(make([]byte, largeReply))
			return err
		case '#':
			return s.line.WriteFrom(&counter{end: largeReply})
		case '-':
			s.line.SetReadDeadline(past)
			if n, err := s.line.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				s.h.t.Errorf("read %d bytes, %v; want a timeout", n, err)
			}
			_, err := s.line.Write([]byte("."))
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
	s.line.Close(last)
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
	p := h.dialPlain()
	if h.kind.tls != 0 {
		if err := p.secure(); err != nil {
			h.t.Fatal(err)
		}
		<-p.s.secured
	}
	return p
}

// secure makes the connection secure.
func (p *peer) secure() error {
	v := p.h.kind.tls
	c := tls.Client(p.conn, &tls.Config{InsecureSkipVerify: true, MinVersion: v, MaxVersion: v})
	p.conn = c
	return c.Handshake()
}

// peerTimeout is how long the connection of a peer may last: the longest test has a hundred
// of them with TLS, and may run as a program for another processor.
const peerTimeout = 5 * time.Minute

// dialPlain is dial without TLS.
func (h *harness) dialPlain() *peer {
	h.t.Helper()
	c, err := net.Dial(h.network, h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(peerTimeout))
	p := &peer{h, c, <-h.newClient}
	if !h.atOnce {
		p.expect(greeting)
	}
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

// parked waits until n connections are idle.
func (h *harness) parked(n int) {
	h.t.Helper()
	testutil.Eventually(h.t, "idle connections", func() bool { return h.Stats().Idle == n })
}

// blocking asks until p is in blocking-read mode.
func (p *peer) blocking() {
	p.h.t.Helper()
	testutil.Eventually(p.h.t, "in blocking-read mode", func() bool {
		for range 2 * burstLength {
			p.ask("xy")
		}
		return p.s.c.Exclusive()
	})
}
