package conn

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A slowPeer is a slowStream whose peer takes rate bytes a second out of a socket with
// a buffer of a fixed size. It is driven by its own clock: that of time.
type slowPeer struct {
	mu       sync.Mutex
	rate     int           // bytes a second
	delay    time.Duration // until the system learns what was taken
	size     int           // of the buffer
	queued   int           // bytes in the buffer
	at       time.Time
	got      int
	deadline time.Time
	aborted  bool
	user     uint64
}

func newSlowPeer(rate, size int) *slowPeer { return &slowPeer{rate: rate, size: size, at: time.Now()} }

// advance lets the peer read for the time that has passed. It takes a byte only
// if the time was enough for it.
func (p *slowPeer) advance() {
	now := time.Now().Add(-p.delay)
	n := int(now.Sub(p.at).Seconds() * float64(p.rate))
	if n <= 0 {
		return
	}
	p.at = now
	n = min(n, p.queued)
	p.queued -= n
	p.got += n
}

func (p *slowPeer) writeFrom(src Source) (n int, err error) {
	for {
		b := src.Peek(nil)
		p.mu.Lock()
		p.advance()
		if p.aborted {
			p.mu.Unlock()
			return n, syscall.EPIPE
		}
		// As in TCP there is room when a third of the buffer is free.
		if free := p.size - p.queued; free >= p.size/3 {
			k := min(free, len(b))
			p.queued += k
			n += k
			src.Advance(k)
		}
		over := !p.deadline.IsZero() && !time.Now().Before(p.deadline)
		p.mu.Unlock()
		switch {
		case len(src.Peek(nil)) == 0:
			return n, nil
		case over:
			return n, os.ErrDeadlineExceeded
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (p *slowPeer) SetWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	return nil
}

func (p *slowPeer) unsent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	return p.queued
}

// evict is quota.Client.Evict.
func (p *slowPeer) evict(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
}

// write writes a reply of size bytes to p.
func (p *slowPeer) write(limit *quota.Limit, size int) (err error) {
	c := &quota.Client{Key: fairqueue.Key{Group: fairqueue.Group{ID: p.user}}, Evict: p.evict}
	a := limit.Open(c)
	defer a.Close()
	return writeSlowly(p, &whole{make([]byte, size), size}, a)
}

// A client that reads at all gets all of its reply, however long that takes.
func TestSlowClientIsServed(t *testing.T) {
	tests := []struct {
		name             string
		rate, size, buff int
		delay            time.Duration
	}{
		{"32 kbit/s with 300 ms of delay", 4000, 1 << 20, 64 << 10, 600 * time.Millisecond}, // there and back
		{"2 KiB/s with a socket buffer that frees up once in ten minutes", 2 << 10, 16 << 20, 4 << 20, 0},
		{"a byte a second", 1, 2048, 512, 0},
		{"a stopped client whose socket holds the reply", 0, 60 << 10, 64 << 10, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, p := &quota.Limit{All: 64 << 20}, newSlowPeer(tt.rate, tt.buff)
				p.delay = tt.delay
				begin := time.Now()
				if err := p.write(u, tt.size); err != nil {
					t.Fatalf("after %v: %v", time.Since(begin), err)
				}
				if p.got+p.queued != tt.size {
					t.Errorf("written %d of %d bytes", p.got+p.queued, tt.size)
				}
				if !p.deadline.IsZero() {
					t.Error("a write deadline is left")
				}
				if n := u.Status().Used; n != 0 {
					t.Errorf("%d bytes are held", n)
				}
			})
		})
	}
}

// A client that is stopped, such as a pmval in the background, stays connected: its replies
// are in the socket, and pmcd holds nothing for it that could time out.
func TestStoppedClient(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		p.ask("xy")
		if _, err := p.conn.Write([]byte("ab")); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, "pmcd has the request", func() bool { return h.withInput.Load() == 2 })
		h.parked(1)
		testutil.Eventually(t, "nothing is held", func() bool { return h.unread.Status().Used == 0 })
		p.expect("ab")
		p.ask("cd")
	})
}

// A client that takes nothing for a minute is disconnected, also if it has read before.
func TestStalledClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, p := &quota.Limit{All: 64 << 20}, newSlowPeer(10<<10, 64<<10)
		begin := time.Now()
		time.AfterFunc(30*time.Second, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.advance()
			p.rate = 0
		})
		err := p.write(u, 1<<20)
		if !errors.Is(err, errStalled) {
			t.Fatalf("error %v, want %v", err, errStalled)
		}
		if d := time.Since(begin); d < 30*time.Second+StallTime || d > 30*time.Second+StallTime+2*progressTime {
			t.Errorf("disconnected after %v", d)
		}
		if n := u.Status().Used; n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	})
}

// A client that is evicted because of another one's reply is disconnected, and one whose own reply
// is too long gets the error.
func TestUnreadEvicts(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		u := &quota.Limit{Name: "unread replies", All: 8 * mib}
		stopped, reads, large := newSlowPeer(0, 64<<10), newSlowPeer(64<<10, 64<<10), newSlowPeer(1<<20, 64<<10)
		reads.user = 1
		begin := time.Now()
		gone, read := make(chan error, 1), make(chan error, 1)
		go func() { gone <- stopped.write(u, 5*mib) }()
		synctest.Wait()
		go func() { read <- reads.write(u, 4*mib) }()
		if err := <-gone; err != syscall.EPIPE || time.Since(begin) > time.Second {
			t.Errorf("the larger of two, after %v: %v", time.Since(begin), err)
		}
		if err := large.write(u, 9*mib); !errors.As(err, new(*quota.Error)) {
			t.Errorf("one above the limit alone: %v", err)
		}
		if err := <-read; err != nil {
			t.Errorf("the smaller of two: %v", err)
		}
		if n := u.Status().Used; n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	})
}

// A client that is evicted while a reply is written to it ends with that error.
func TestEvictedDuringWrite(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		p := h.dial()
		p.ask("x*")
		testutil.Eventually(t, "the reply waits for its client", func() bool { return h.unread.Status().Used >= largeReply })
		want := &quota.Error{Limit: new(quota.Limit)}
		p.s.client.Evict(want)
		if <-p.s.ended; !errors.Is(p.s.err, want) {
			t.Errorf("it has ended: %v", p.s.err)
		}
	})
}

// Of clients that do not read large replies one is disconnected when there are too many: one that
// has no more than others is the last.
func TestUnreadReplies(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100, func(h *harness) { h.unread.All = 2*largeReply + largeReply/2 })
		peers := []*peer{h.dial(), h.dial(), h.dial()}
		for i, p := range peers[:2] {
			p.ask("x*")
			testutil.Eventually(t, "the reply waits for its client", func() bool {
				return h.unread.Status().Used >= int64(i+1)*largeReply // the echo is a write, too
			})
		}
		peers[2].ask("x*")
		<-peers[2].s.ended
		if !errors.As(peers[2].s.err, new(*quota.Error)) {
			t.Errorf("the last client has ended: %v", peers[2].s.err)
		}
		for _, p := range peers[:2] {
			if _, err := io.CopyN(io.Discard, p.conn, largeReply); err != nil {
				t.Error(err)
			}
			p.ask("xy")
		}
	})
}
