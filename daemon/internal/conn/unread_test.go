package conn

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
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

func (p *slowPeer) Write(b []byte) (n int, err error) {
	for {
		p.mu.Lock()
		p.advance()
		if p.aborted {
			p.mu.Unlock()
			return n, syscall.EPIPE
		}
		// As in TCP there is room when a third of the buffer is free.
		if free := p.size - p.queued; free >= p.size/3 {
			k := min(free, len(b)-n)
			p.queued += k
			n += k
		}
		over := !p.deadline.IsZero() && !time.Now().Before(p.deadline)
		p.mu.Unlock()
		switch {
		case n == len(b):
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

func (p *slowPeer) Peer() Peer { return Peer{Unix: true, Path: "slow"} }

func (p *slowPeer) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
}

func (p *slowPeer) isAborted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aborted
}

func newUnread(all, each int64) *unread {
	return &unread{UnreadLimits: UnreadLimits{All: all, Each: each}}
}

func (u *unread) empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held == 0 && len(u.writes) == 0
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
				u, p := newUnread(64<<20, 8<<20), newSlowPeer(tt.rate, tt.buff)
				p.delay = tt.delay
				begin := time.Now()
				if err := u.write(p, make([]byte, tt.size), tt.size); err != nil {
					t.Fatalf("after %v: %v", time.Since(begin), err)
				}
				if p.got+p.queued != tt.size {
					t.Errorf("written %d of %d bytes", p.got+p.queued, tt.size)
				}
				if !p.deadline.IsZero() {
					t.Error("a write deadline is left")
				}
				if !u.empty() {
					t.Errorf("%d bytes are held", u.held)
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
		testutil.Eventually(t, "nothing is held", func() bool { return h.Stats().Unread == 0 })
		p.expect("ab")
		p.ask("cd")
	})
}

// A client that takes nothing for a minute is disconnected, also if it has read before.
func TestStalledClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, p := newUnread(64<<20, 8<<20), newSlowPeer(10<<10, 64<<10)
		begin := time.Now()
		time.AfterFunc(30*time.Second, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.advance()
			p.rate = 0
		})
		err := u.write(p, make([]byte, 1<<20), 1<<20)
		if !errors.Is(err, errStalled) {
			t.Fatalf("error %v, want %v", err, errStalled)
		}
		if d := time.Since(begin); d < 30*time.Second+StallTime || d > 30*time.Second+StallTime+2*progressTime {
			t.Errorf("disconnected after %v", d)
		}
		if !u.empty() {
			t.Errorf("%d bytes are held", u.held)
		}
	})
}

// startWrite writes size bytes to p. The error is sent when the write is over.
func startWrite(u *unread, p *slowPeer, size int) <-chan error {
	c := make(chan error, 1)
	go func() { c <- u.write(p, make([]byte, size), size) }()
	return c
}

func TestEvict(t *testing.T) {
	const mib = 1 << 20
	type client struct {
		rate, mibs int
		start      time.Duration
		evicted    bool
	}
	tests := []struct {
		name    string
		clients []client
	}{
		{"below the limit all are served", []client{{rate: 0, mibs: 2}, {rate: 0, mibs: 2}, {rate: 1, mibs: 3}}},
		{"the one that takes nothing", []client{{rate: 2048, mibs: 3}, {rate: 0, mibs: 3, evicted: true}, {rate: 2048, mibs: 3, start: 15 * time.Second}}},
		{"first one above its own limit, though it reads", []client{{rate: 0, mibs: 3}, {rate: 4096, mibs: 5, evicted: true}, {rate: 1, mibs: 2, start: 15 * time.Second}}},
		{"for what it holds", []client{{rate: 1024, mibs: 1}, {rate: 2048, mibs: 4, evicted: true}, {rate: 0, mibs: 4, start: 15 * time.Second}}},
		{"not one that has just begun", []client{{rate: 10, mibs: 4, evicted: true}, {rate: 10, mibs: 4, start: 15 * time.Second}}},
		{"of those that have just begun the oldest", []client{{rate: 0, mibs: 4, evicted: true}, {rate: 0, mibs: 4, start: time.Millisecond}}},
		{"several for a large one", []client{
			{rate: 0, mibs: 2, evicted: true}, {rate: 1, mibs: 2, evicted: true}, {rate: 4096, mibs: 2}, {rate: 0, mibs: 4, start: 15 * time.Second},
		}},
		{"one above the limit alone", []client{{rate: 1 << 20, mibs: 9, evicted: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnread(8*mib-mib/2, 4*mib)
				peers, errs := []*slowPeer{}, []<-chan error{}
				for _, c := range tt.clients {
					time.Sleep(c.start)
					p := newSlowPeer(c.rate, 64<<10)
					peers = append(peers, p)
					errs = append(errs, startWrite(u, p, c.mibs*mib))
					synctest.Wait()
				}
				time.Sleep(time.Second)
				var got, want []int
				for i, c := range tt.clients {
					select {
					case err := <-errs[i]:
						var e *UnreadError
						if !errors.As(err, &e) || e.Size != int64(c.mibs*mib) {
							t.Errorf("client %d: error %v", i, err)
						}
						got = append(got, i)
						errs[i] = nil
					default:
					}
					if c.evicted {
						want = append(want, i)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("disconnected %v, want %v", got, want)
				}
				if u.held > u.All {
					t.Errorf("%d bytes are held, more than %d", u.held, u.All)
				}
				for i, p := range peers {
					if p.Abort(); errs[i] != nil {
						<-errs[i]
					}
				}
				if !u.empty() {
					t.Errorf("%d bytes are held after the end", u.held)
				}
			})
		})
	}
}

// What a client has lately taken of a reply that is written in pieces, as with TLS, counts
// as it does for any other reply.
func TestEvictReplyInPieces(t *testing.T) {
	const size, piece = 4 << 20, 16 << 10
	synctest.Test(t, func(t *testing.T) {
		u := newUnread(2*size+size/2, size)
		quick, slow, last := newSlowPeer(64<<10, 64<<10), newSlowPeer(4<<10, 64<<10), newSlowPeer(0, 64<<10)
		inPieces := make(chan error, 1)
		go func() {
			r := slowReply{size: size}
			defer r.end(u)
			var err error
			for n := 0; n < size && err == nil; n += piece {
				err = r.goOn(u, quick, make([]byte, piece))
			}
			inPieces <- err
		}()
		whole := startWrite(u, slow, size)
		time.Sleep(25 * time.Second) // each has been looked at twice
		one := startWrite(u, last, size)
		synctest.Wait()
		if !slow.isAborted() || quick.isAborted() {
			t.Error("the client that reads the most was disconnected")
		}
		last.Abort()
		for _, c := range []<-chan error{inPieces, whole, one} {
			<-c
		}
		synctest.Wait()
		if !u.empty() {
			t.Errorf("%d bytes are held after the end", u.held)
		}
	})
}

// Of clients that do not read large replies one is disconnected when there are too many.
// The one that reads, though slowly, gets all of its reply.
func TestUnreadReplies(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		h := newHarness(t, k, 100)
		h.unread.mu.Lock()
		h.unread.UnreadLimits = UnreadLimits{All: 2*largeReply + largeReply/2, Each: largeReply}
		h.unread.mu.Unlock()
		first, reader, last := h.dial(), h.dial(), h.dial()
		for i, p := range []*peer{first, reader, last} {
			p.ask("x*")
			testutil.Eventually(t, "the reply waits for its client", func() bool {
				s := h.Stats()
				return s.Unread+s.Evicted*largeReply >= int64(i+1)*largeReply // the echo is a write, too
			})
			if i == 1 {
				if _, err := io.CopyN(io.Discard, p.conn, largeReply/2); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-first.s.ended
		if e := h.Stats().Evicted; e != 1 {
			t.Errorf("%d clients were disconnected", e)
		}
		if _, err := io.CopyN(io.Discard, reader.conn, largeReply-largeReply/2); err != nil {
			t.Errorf("the client that reads: %v", err)
		}
		if _, err := io.CopyN(io.Discard, last.conn, largeReply); err != nil {
			t.Errorf("the last client: %v", err)
		}
		reader.ask("xy")
	})
}
