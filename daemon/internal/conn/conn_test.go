package conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// eachKind runs a test with each kind of connection.
func eachKind(t *testing.T, test func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// A client that was served and is silent has no goroutine, whatever it did before,
// and is served again.
func TestParkedAgain(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			h := newHarness(t, k, 100)
			before := runtime.NumGoroutine()
			const many = 20
			peers := make([]*peer, many)
			for i := range peers {
				peers[i] = h.dial()
			}
			for round, text := range []string{"x", "a request", strings.Repeat("large ", 10_000), "half+half"} {
				for _, p := range peers {
					p.ask(text)
				}
				if round == 1 {
					peers[0].blocking()
				}
				h.parked(many)
				testutil.Eventually(t, "no goroutines", func() bool { return runtime.NumGoroutine() <= before })
			}
		})
	}
}

// How a connection ends, in each of the states in which it may be.
func TestEnds(t *testing.T) {
	states := map[string]func(p *peer){
		"accepted":    func(p *peer) {},
		"first":       func(p *peer) { p.ask("x") },
		"served":      func(p *peer) { p.ask("xy") },
		"parked":      func(p *peer) { p.ask("xy"); p.h.parked(1) },
		"blocking":    func(p *peer) { p.blocking() },
		"in a PDU":    func(p *peer) { p.ask("a+") },
		"in a PDU, 2": func(p *peer) { p.blocking(); p.ask("a+") },
	}
	ends := map[string]struct {
		end  func(p *peer)
		want error
		last string
	}{
		"interrupt": {func(p *peer) { p.s.c.Interrupt(errTest) }, errTest, lastText},
		"twice": {func(p *peer) {
			p.s.c.Interrupt(errTest)
			p.s.c.Interrupt(io.ErrNoProgress)
		}, errTest, lastText},
		"interrupt and abort": {func(p *peer) { p.s.c.Interrupt(errTest); p.s.c.Abort() }, errTest, "?"},
		"abort":               {func(p *peer) { p.s.c.Abort() }, io.EOF, ""},
		"half-close": {func(p *peer) {
			p.conn.(interface{ CloseWrite() error }).CloseWrite()
		}, io.EOF, ""},
		"close": {func(p *peer) { p.conn.Close() }, io.EOF, "?"},
	}
	eachKind(t, func(t *testing.T, k kind) {
		for sname, reach := range states {
			for ename, e := range ends {
				t.Run(sname+"/"+ename, func(t *testing.T) {
					h := newHarness(t, k, 100)
					p := h.dial()
					reach(p)
					e.end(p)
					if e.last != "?" {
						p.expect(e.last)
						p.disconnected()
					}
					p.conn.Close()
					<-p.s.ended
					if p.s.err != e.want {
						t.Errorf("ended with %v, want %v", p.s.err, e.want)
					}
				})
			}
		}
	})
}

// A Read that times out ends nothing, and its deadline is over with the next Wait.
func TestReadDeadline(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		for range 2 {
			p.ask("xy-")
			p.expect(".")
			p.ask("xy-")
			p.expect(".")
			p.blocking()
		}
	})
}

// At the end of the acceptor all idle connections end. The others end when they are aborted.
func TestStop(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		idle := h.dial()
		h.parked(1) // a connection with TLS was served
		served := h.dial()
		served.ask("xy")
		busy := h.dial()
		busy.blocking()
		go func() { // ends with the connection
			for err := error(nil); err == nil; {
				_, err = busy.conn.Write([]byte("xy"))
			}
		}()
		read := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, busy.conn)
			read <- err
		}()
		h.stop()
		<-idle.s.ended
		// The owner of the sessions ends the others.
		for _, p := range []*peer{idle, served} {
			p.s.c.Abort()
			<-p.s.ended
			p.disconnected()
		}
		busy.s.c.Abort()
		<-busy.s.ended
		if err := <-read; errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the client that asks without pause is still connected")
		}
	})
}

// A model is what is known of a connection while random things are done to it: what
// the session reads is a prefix of what the client has sent, and what the client
// reads is what the session has read.
type model struct {
	*peer
	sent        []byte
	read        chan []byte // all that the client reads
	interrupted bool
	aborted     bool
	closed      bool
}

func newModel(h *harness) *model {
	m := &model{peer: h.dial(), read: make(chan []byte, 1)}
	go func() {
		b, _ := io.ReadAll(m.conn)
		m.read <- b
	}()
	return m
}

// send sends n bytes of a sequence that does not repeat soon.
func (m *model) send(n int, partial bool) {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte((len(m.sent)+i)%23)
	}
	if partial && n > 0 {
		b[n-1] = '+'
	}
	k, _ := m.conn.Write(b)
	m.sent = append(m.sent, b[:k]...)
}

// do does what op says.
func (m *model) do(op byte) {
	n := int(op >> 4)
	switch op & 15 {
	case 0, 1, 2:
		m.send(n+1, false)
	case 3:
		m.send(n+1, true)
	case 4:
		m.send(n<<12+1, false)
	case 5, 6: // a burst
		for range n {
			m.send(2, false)
			runtime.Gosched()
		}
	case 7:
		testutil.Eventually(m.h.t, "idle or over", func() bool {
			s := m.h.Stats()
			return s.Idle == s.Open || len(m.sent) > 0 && m.sent[len(m.sent)-1] == '+' || m.ended()
		})
	case 8:
		if n == 0 {
			m.s.c.Interrupt(errTest)
			m.interrupted = true
		}
	case 9:
		if n == 1 {
			m.s.c.Abort()
			m.aborted = true
		}
	case 10:
		if n == 2 {
			m.conn.Close()
			m.closed = true
		}
	case 11:
		c := m.conn
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		if tcp, ok := c.(*net.TCPConn); ok && n == 3 {
			tcp.SetLinger(0)
			tcp.Close()
			m.closed = true
		}
	}
}

func (m *model) ended() bool { return m.interrupted || m.aborted || m.closed }

// finish ends the connection and compares.
func (m *model) finish() error {
	if !m.closed {
		m.conn.(interface{ CloseWrite() error }).CloseWrite()
	}
	<-m.s.ended
	read := <-m.read
	got, err := m.s.got, m.s.err
	if !bytes.HasPrefix(m.sent, got) {
		return fmt.Errorf("the session read %.40q... (%d bytes), not a prefix of what was sent (%d bytes)", got, len(got), len(m.sent))
	}
	want := string(got)
	switch {
	case err == errTest && !m.interrupted:
		return fmt.Errorf("interrupted for no reason")
	case err == errTest && !m.aborted && !m.closed:
		want += lastText
		if string(read) != want {
			return fmt.Errorf("interrupted: the client read %d bytes, want %d", len(read), len(want))
		}
	case !m.ended() && (len(got) != len(m.sent) || string(read) != want || err != io.EOF):
		return fmt.Errorf("sent %d bytes, the session read %d and ended with %v, the client read %d", len(m.sent), len(got), err, len(read))
	case !strings.HasPrefix(want+lastText, string(read)):
		return fmt.Errorf("the client read %d bytes that are not those of the session", len(read))
	}
	return nil
}

// Connections are ordered byte streams, whatever is done to them.
func TestModel(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			ops := make([]byte, r.IntN(30))
			for i := range ops {
				ops[i] = byte(r.Uint32())
			}
			h := newHarness(t, k, 1+r.IntN(300))
			a, b := newModel(h), newModel(h)
			for _, op := range ops {
				if op&1 == 0 {
					a.do(op)
				} else {
					b.do(op)
				}
			}
			for _, m := range []*model{a, b} {
				if err := m.finish(); err != nil {
					t.Errorf("seed %d, ops %x: %v", seed, ops, err)
				}
			}
			h.stop()
		}
	})
}

func FuzzConn(f *testing.F) {
	f.Add(byte(0), byte(10), []byte{0, 0x17, 0x30, 0x45, 0x27})
	f.Add(byte(1), byte(200), []byte{0xf5, 0xf6, 0x03, 0x12, 8})
	f.Add(byte(2), byte(1), []byte{0xf5, 0x07, 0x24, 0x19})
	f.Add(byte(3), byte(77), []byte{0x44, 0x2a})
	f.Fuzz(func(t *testing.T, which, size byte, ops []byte) {
		h := newHarness(t, kinds[int(which)%len(kinds)], 1+int(size))
		m := newModel(h)
		for _, op := range ops[:min(len(ops), 40)] {
			m.do(op)
		}
		if err := m.finish(); err != nil {
			t.Error(err)
		}
	})
}
