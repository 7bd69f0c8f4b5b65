package conn

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Handshakes that do not end do not keep others from being computed. At the end none is counted.
func TestHandshakesTogether(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		before := runtime.NumGoroutine()
		const many = 50
		var silent, peers []*peer
		for i := range many {
			p := h.dialPlain()
			if i%2 == 0 {
				silent = append(silent, p)
				hello := clientHello(&heldConn{Conn: p.conn, hold: true})
				p.conn.Write(hello[:(i+1)*len(hello)/many+1])
			} else {
				peers = append(peers, p)
			}
		}
		var all sync.WaitGroup
		for _, p := range peers {
			all.Go(func() {
				if err := p.secure(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, p := range peers {
			p.ask("xy")
		}
		for _, p := range silent {
			select {
			case <-p.s.secured:
				t.Error("a handshake has succeeded")
			default:
			}
			p.conn.Close()
			<-p.s.ended
		}
		h.parked(len(peers))
		for _, p := range peers {
			p.conn.Close()
			<-p.s.ended
		}
		testutil.Eventually(t, "no goroutines", func() bool { return runtime.NumGoroutine() <= before })
		if s := h.tls.handshakes.limiter(); s.Used() != 0 || s.Waiting() != 0 {
			t.Errorf("%d handshakes are computed, %d wait", s.Used(), s.Waiting())
		}
	})
}

// A handshake that is too late is not computed. When one has ended, one other begins.
func TestHandshakeBeginEnd(t *testing.T) {
	var h handshakes
	limiter := h.limiter()
	start := func(d time.Duration) *handshake {
		return &handshake{limiter: limiter, plain: new(linuxConn), key: new(fairqueue.Key), deadline: time.Now().Add(d)}
	}
	var running []*handshake
	for range h.most() {
		s := start(time.Hour)
		for range 2 { // the second time has no effect
			if err := s.begin(); err != nil {
				t.Fatal(err)
			}
		}
		running = append(running, s)
	}
	if err := start(0).begin(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a late one: %v", err)
	}
	next := start(time.Hour)
	begun := make(chan error)
	go func() { begun <- next.begin() }()
	testutil.Eventually(t, "a handshake waits", func() bool { return limiter.Waiting() == 1 })
	running[0].end()
	running[0].end() // has no effect
	if err := <-begun; err != nil {
		t.Error(err)
	}
	next.end()
	if err := next.begin(); err != nil || limiter.Used() != int64(h.most()) {
		t.Errorf("begun again: %v, %d are computed", err, limiter.Used())
	}
	next.end()
	for _, s := range running[1:] {
		s.end()
	}
	if limiter.Used() != 0 || limiter.Waiting() != 0 {
		t.Errorf("%d handshakes are computed, %d wait", limiter.Used(), limiter.Waiting())
	}
}

// A handshake that waits for its turn ends when its connection is interrupted or aborted.
func TestHandshakeInterrupted(t *testing.T) {
	eachTLS(t, func(t *testing.T, k kind) {
		for name, tt := range map[string]struct {
			end  func(Conn)
			want error
		}{
			"Interrupt": {func(c Conn) { c.Interrupt(errTest) }, errTest},
			"Abort":     {func(c Conn) { c.Abort() }, io.EOF},
		} {
			h := newHarness(t, k, 100, func(h *harness) { h.atOnce = true })
			s := h.tls.handshakes.limiter()
			s.Start(new(fairqueue.Use), int64(h.tls.handshakes.most()), new(fairqueue.Key))
			p := h.dialPlain()
			if _, err := p.conn.Write(clientHello(&heldConn{Conn: p.conn, hold: true})); err != nil {
				t.Fatal(err)
			}
			testutil.Eventually(t, "a handshake waits", func() bool { return s.Waiting() == 1 })
			tt.end(p.s.c)
			if <-p.s.ended; !errors.Is(p.s.err, tt.want) {
				t.Errorf("%s: ended with %v, want %v", name, p.s.err, tt.want)
			}
			if n := s.Waiting(); n != 0 {
				t.Errorf("%s: %d handshakes wait", name, n)
			}
			h.stop()
		}
	})
}
