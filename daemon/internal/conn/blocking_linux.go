package conn

import (
	"io"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/rawio"
)

// This file is blocking-read mode: the thread of a client that alone keeps pmcd
// busy, such as a logger at the turn of a minute, waits in recv(2) instead of in
// Go's poller. To wake a goroutine through the poller costs two system calls and
// often another thread. Decision 2 in docs/decisions has the figures.
//
// Its invariants:
//
//   - One connection at most is in the mode (epollLoop.exclusive): a thread that waits may
//     keep its P, the right to run Go code, for milliseconds. The program pmcd has two at least.
//   - A connection enters it after a burst of requests without a pause and without a
//     request of another client. It leaves it when another client has asked
//     something, when reads end too often without input, and before any wait that is
//     not for the next request: for the rest of a PDU, or for a slow client.
//   - In the mode the descriptor is in blocking mode, has SO_RCVTIMEO, and is in no
//     poller. A read waits for recvTimeout at most; so Interrupt need not wake it.
//     Writes use MSG_DONTWAIT.
//   - Only the goroutine that serves the connection enters and leaves it. Other
//     packages know of it by Conn.Exclusive alone.

const (
	// burstLength is how many requests, each within burstPause of the last reply,
	// lead into the mode.
	burstLength = 8
	burstPause  = time.Millisecond

	// recvTimeout is how long one read waits.
	recvTimeout = 4 * time.Millisecond

	// maxReadTimeouts is how many reads may end without input, more than requests
	// that come at once.
	maxReadTimeouts = 16
)

// A burst is what the mode depends on.
type burst struct {
	batch        uint64    // the number of the connection's last batch, of all batches
	length       int       // requests without a pause
	readTimeouts int       // reads that ended without input, less those that did not
	lastGosched  time.Time // in the mode
}

// Exclusive implements Conn.
func (c *linuxConn) Exclusive() bool { return c.loop.exclusive.Load() == c }

// contended reports whether another connection has had input since the last batch of
// c began.
func (c *linuxConn) contended() bool { return c.loop.batches.Load() != c.burst.batch }

// beginWait returns the time at which a wait begins, if that matters.
func (b *burst) beginWait(l *epollLoop) (since time.Time) {
	if l.exclusive.Load() == nil {
		since = time.Now()
	}
	return since
}

// enterBlocking enters the mode if the client asks in a burst. A wait has just
// ended that began at since.
func (c *linuxConn) enterBlocking(since time.Time) {
	b := &c.burst
	if since.IsZero() {
		return
	}
	if c.contended() || time.Since(since) > burstPause {
		b.length = 0
		return
	}
	b.length++
	if b.length < burstLength {
		return
	}
	b.length, b.readTimeouts = 0, 0
	if !c.loop.exclusive.CompareAndSwap(nil, c) {
		return
	}
	if !c.startBlocking() {
		c.loop.exclusive.Store(nil)
		return
	}
	// This thread will not poll the network any more. To start a goroutine wakes an idle
	// thread, which polls the network when it has nothing else to do.
	go func() {}()
}

// startBlocking takes the connection out of Go's poller and makes its reads wait.
// It reports false if that is not possible.
func (c *linuxConn) startBlocking() bool {
	wait := unix.NsecToTimeval(int64(recvTimeout))
	var err error
	c.raw.Control(func(fd uintptr) { err = unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait) })
	if err != nil || !c.detach() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = blocking
	unix.SetNonblock(c.fd, false) // cannot fail
	return true
}

// leaveBlocking leaves the mode, if the connection is in it.
func (c *linuxConn) leaveBlocking() {
	if c.state != blocking {
		return
	}
	unix.SetNonblock(c.fd, true)
	c.mu.Lock()
	c.state = detached
	c.mu.Unlock()
	c.attach()
	c.loop.exclusive.Store(nil)
}

// waitBlocking waits for input. If it returns without input, the connection has left
// the mode.
func (c *linuxConn) waitBlocking() {
	b := &c.burst
	c.buf = buffers.Get().(*buffer)
	err := error(syscall.EAGAIN)
	for first := true; b.readTimeouts < maxReadTimeouts; first = false {
		b.yield()
		var n int
		n, err = c.recv(c.buf[:])
		if n > 0 {
			c.in = c.buf[:n]
			if first && b.readTimeouts > 0 {
				b.readTimeouts--
			}
			if c.contended() {
				c.leaveBlocking()
			}
			return
		}
		if err != syscall.EAGAIN || c.contended() || c.interrupted() != nil {
			break
		}
		b.readTimeouts++
	}
	c.dropInput()
	c.leaveBlocking()
	if err != syscall.EAGAIN {
		c.readErr = err
	}
}

// recv reads, and waits for recvTimeout at most. It returns EAGAIN if nothing has
// come in this time.
func (c *linuxConn) recv(b []byte) (n int, err error) {
	if c.rights {
		n, err = rawio.WaitNoRights(uintptr(c.fd), b)
		if err == rawio.ErrRights { // never wrapped
			err = ErrRights
		}
	} else {
		for {
			if n, err = unix.Read(c.fd, b); err != unix.EINTR {
				break
			}
		}
		n = max(n, 0)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// yield lets other goroutines run now and then. A goroutine that for 10 ms does
// nothing but system calls loses its P, whether another one needs it or not, and then
// the runtime's monitor (sysmon) runs every 20 us for a while: that was 4 % of the CPU
// time.
func (b *burst) yield() {
	if now := time.Now(); now.Sub(b.lastGosched) > recvTimeout {
		b.lastGosched = now
		runtime.Gosched()
	}
}
