package conn

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/rawio"
)

// A state says what watches a linuxConn for input.
//
//	        accept
//	          |
//	          v           input, or the end
//	  +->  detached  <-------------------------  idle
//	  |    |  |   \                               ^
//	  |    |  |    `-- silent since the accept ---+
//	  |    |  v                                   |
//	  |    | polled  ---- silent for IdleTime ----+
//	  |    |  ^  |
//	  |    |  |  | many requests, no other client: blocking_linux.go
//	  |    |  |  v
//	  |    | blocking
//	  |    v
//	closed (from any state but idle)
type state int

const (
	detached state = iota // nothing: a goroutine serves it, or the acceptor has just accepted it
	idle                  // the acceptor's epoll set; no goroutine serves it
	polled                // Go's poller
	blocking              // the thread of the goroutine that serves it waits in recv(2)
	closed
)

// A linuxConn is a Conn that can be watched in several ways. Its system calls on
// the way of a request are those of package rawio.
type linuxConn struct {
	interrupter
	loop    *epollLoop
	peer    Peer // see identify
	session Session
	rights  bool // a Unix socket in which descriptors may be queued

	// mu makes a change of the state and the use of the descriptor by Interrupt,
	// Abort and FD exclude each other: a descriptor that is closed may be another
	// file's. The goroutine that serves the connection reads the following without
	// mu, as only it changes them; while the state is idle the acceptor does.
	mu     sync.Mutex
	state  state
	fd     int             // -1 if the state is polled or closed
	stream *os.File        // not nil if the state is polled
	raw    syscall.RawConn // of stream

	// The following belong to the goroutine that serves the connection, and to the
	// acceptor while the state is idle.
	writer    rawio.NonblockWriter
	served    bool // Session.Serve has had input
	unwritten []byte
	buf       *buffer // what in is a part of; nil if in is empty
	in        []byte  // input that is not read yet
	readErr   error   // that ends the input
	deadline  time.Time
	timed     bool // the stream has a read deadline
	attempt   func(fd uintptr) bool
	burst     burst

	// For the sweep of connections that are silent.
	swept   atomic.Bool // the client has asked nothing since the last sweep
	parking atomic.Bool // the sweep has asked for a return to the acceptor
}

// A buffer holds the input that Wait reads until Read takes it. It has room for
// most requests.
type buffer [16 << 10]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func newLinuxConn(l *epollLoop, fd int) *linuxConn {
	c := &linuxConn{loop: l, fd: fd}
	c.writer.InitSocket(uintptr(fd))
	return c
}

func (c *linuxConn) Peer() Peer { return c.peer }

func (c *linuxConn) FD() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = -1
	c.control(func(fd uintptr) { n = int(fd) })
	return n
}

// control calls f with the descriptor, unless the connection is closed. The caller
// holds mu or serves the connection.
func (c *linuxConn) control(f func(fd uintptr)) {
	switch {
	case c.stream != nil:
		c.raw.Control(f)
	case c.state != closed:
		f(uintptr(c.fd))
	}
}

func (c *linuxConn) Interrupt(err error) {
	if !c.interrupt(err) {
		return
	}
	c.mu.Lock()
	state := c.state
	if state == polled {
		c.stream.SetReadDeadline(past)
	}
	c.mu.Unlock()
	if state == idle {
		c.loop.interrupt(c)
	}
	// In blocking-read mode the wait ends soon by itself.
}

func (c *linuxConn) Abort() {
	c.closeEnded()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

func (c *linuxConn) Wait() error {
	c.deadline = time.Time{}
	if len(c.unwritten) > 0 {
		b := c.unwritten
		c.unwritten = nil
		if _, err := c.Write(b); err != nil {
			c.readErr = io.EOF
		}
	}
	for {
		switch {
		case c.interrupted() != nil:
			return c.interrupted()
		case len(c.in) > 0:
			c.beginBatch()
			return nil
		case c.readErr == ErrRights:
			return ErrRights
		case c.readErr != nil:
			return io.EOF
		}
		parked := false
		switch c.state {
		case blocking:
			c.waitBlocking()
		case detached:
			if c.served {
				c.attach()
			} else {
				parked = c.park()
			}
		default:
			parked = c.waitPolled()
		}
		if parked {
			return ErrParked
		}
	}
}

// beginBatch notes that there is input, one request or several that came at once.
func (c *linuxConn) beginBatch() {
	c.served = true
	c.burst.batch = c.loop.batches.Add(1)
	if c.swept.Load() {
		c.swept.Store(false)
	}
}

// attach has Go's poller watch the connection.
func (c *linuxConn) attach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := os.NewFile(uintptr(c.fd), "client")
	raw, err := stream.SyscallConn()
	if err != nil { // never for an *os.File that was just made
		c.readErr = err
		return
	}
	c.stream, c.raw, c.fd, c.state, c.timed = stream, raw, -1, polled, false
	c.writer.Init(raw)
	if c.attempt == nil {
		c.attempt = c.tryRead // made once: each would be an allocation
	}
	if c.interrupted() != nil {
		c.stream.SetReadDeadline(past)
	}
}

// detach takes the connection out of Go's poller. That needs a descriptor for a
// moment; without one detach returns false.
func (c *linuxConn) detach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fd := -1
	c.raw.Control(func(old uintptr) { fd, _ = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if fd < 0 {
		return false
	}
	c.stream.Close()
	c.stream, c.raw, c.fd, c.state = nil, nil, fd, detached
	c.writer.InitSocket(uintptr(fd))
	return true
}

// waitPolled waits until Go's poller reports input. It reports true if the
// connection was parked.
func (c *linuxConn) waitPolled() (parked bool) {
	if c.timed {
		c.timed = false
		c.stream.SetReadDeadline(time.Time{})
		if c.interrupted() != nil {
			return false
		}
	}
	since := c.burst.beginWait(c.loop)
	switch err := c.raw.Read(c.attempt); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.timed = true
		return c.parking.Swap(false) && c.interrupted() == nil && c.detach() && c.park()
	case err != nil:
		c.readErr = io.EOF
	case len(c.in) > 0:
		c.enterBlocking(since)
	}
	return false
}
