package attack

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// How an attack begins, unless it says otherwise: so many connections a second, and so many
// bytes of Once.
const (
	connectRate = 2000
	onceRate    = 50e6
)

// greetTimeout is how long a connection waits for the greeting.
const greetTimeout = 10 * time.Second

// Counts are what the clients have done since they were started.
type Counts struct {
	Sent     int64 // bytes
	Requests int64 // elements of Repeat that were sent
	Received int64 // bytes
	Replies  int64
	Begun    int64 // connections that were greeted
	Refused  int64 // connections without a greeting
	Ended    int64 // connections that pmcd has ended
}

// Sub returns the difference from an earlier c.
func (c Counts) Sub(before Counts) Counts {
	return Counts{c.Sent - before.Sent, c.Requests - before.Requests, c.Received - before.Received,
		c.Replies - before.Replies, c.Begun - before.Begun, c.Refused - before.Refused, c.Ended - before.Ended}
}

// A Running is an attack that was started.
type Running struct {
	attack  Attack
	begin   pacer // connections
	once    pacer // bytes of Once
	repeat  pacer // bytes of Repeat
	waiting sync.WaitGroup
	done    chan struct{}
	ready   chan struct{}

	sent, requests, received, replies, begun, refused, ended atomic.Int64
}

// Start starts the clients. They end when ctx ends.
func Start(ctx context.Context, a Attack) *Running {
	if a.Retry == 0 {
		a.Retry = time.Second
	}
	if a.Connects == 0 {
		a.Connects = connectRate
	}
	r := &Running{attack: a, begin: pacer{rate: a.Connects}, once: pacer{rate: onceRate}, repeat: pacer{rate: a.Rate},
		done: make(chan struct{}), ready: make(chan struct{})}
	var all sync.WaitGroup
	r.waiting.Add(a.Conns)
	for i := range a.Conns {
		all.Go(func() { r.client(ctx, a.Script(i)) })
	}
	go func() { r.waiting.Wait(); close(r.ready) }()
	go func() { all.Wait(); close(r.done) }()
	return r
}

// Ready is closed when each client has sent Once, or has failed to.
func (r *Running) Ready() <-chan struct{} { return r.ready }

// Done is closed when all clients have ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Counts returns what the clients have done so far.
func (r *Running) Counts() Counts {
	return Counts{r.sent.Load(), r.requests.Load(), r.received.Load(), r.replies.Load(), r.begun.Load(), r.refused.Load(), r.ended.Load()}
}

// client connects and follows s, again each time that pmcd ends the connection.
func (r *Running) client(ctx context.Context, s Script) {
	tried := sync.OnceFunc(r.waiting.Done)
	defer tried()
	for r.begin.take(ctx, 1) {
		if conn, err := r.connect(ctx); err == nil {
			r.begun.Add(1)
			switch {
			case s.Handshake:
				r.handshake(ctx, conn, s)
			case s.Secure:
				if secure := r.secure(ctx, conn); secure != nil {
					r.serve(ctx, secure, s, tried)
				}
			default:
				r.serve(ctx, conn, s, tried)
			}
			conn.Close()
			if ctx.Err() == nil {
				r.ended.Add(1)
			}
		} else if ctx.Err() == nil {
			r.refused.Add(1)
		}
		tried()
		if !pause(ctx, r.attack.Retry) {
			return
		}
	}
}

// connect returns a connection whose greeting has been read.
func (r *Running) connect(ctx context.Context) (net.Conn, error) {
	conn, err := r.attack.Dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer stop()
	conn.SetReadDeadline(time.Now().Add(greetTimeout))
	var greeting [20]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		conn.Close()
		return nil, err
	}
	if code := int32(binary.BigEndian.Uint32(greeting[12:])); code < 0 {
		conn.Close()
		return nil, pdu.Errno(code)
	}
	conn.SetReadDeadline(time.Time{})
	return conn, nil
}

// serve follows s until the connection or ctx ends.
func (r *Running) serve(ctx context.Context, conn net.Conn, s Script, started func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	replied := make(chan struct{}, 1)
	var reading sync.WaitGroup
	defer reading.Wait()
	if !s.Unread {
		reading.Go(func() {
			defer cancel()
			r.discard(conn, replied)
		})
	}
	defer cancel() // before the wait for the reader
	if !r.once.take(ctx, len(s.Once)) || !r.write(conn, s.Once) {
		return
	}
	started()
	for round := 0; s.Rounds == 0 || round < s.Rounds; round++ {
		for _, b := range s.Repeat {
			if !r.repeat.take(ctx, len(b)) || !r.write(conn, b) {
				return
			}
			r.requests.Add(1)
			if s.Wait {
				select {
				case <-replied:
				case <-ctx.Done():
					return
				}
			}
		}
		if len(s.Repeat) == 0 {
			break
		}
	}
	// This keeps what pmcd holds for this connection.
	if s.Hold > 0 {
		pause(ctx, s.Hold)
		return
	}
	if !s.Unread {
		<-ctx.Done()
		return
	}
	for pause(ctx, time.Second) && !closedByPeer(conn) {
	}
}

// closedByPeer reports whether the peer has ended a connection that is not read.
func closedByPeer(conn net.Conn) bool {
	closed := false
	if s, ok := conn.(*tls.Conn); ok {
		conn = s.NetConn()
	}
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
				n, _ := unix.Poll(p, 0)
				closed = n > 0
			})
		}
	}
	return closed
}

func (r *Running) write(conn net.Conn, b []byte) bool {
	n, err := conn.Write(b)
	r.sent.Add(int64(n))
	return err == nil
}
