package daemon

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
)

// A line is the connection of a client. Only its session reads and writes it;
// others may hurry or close it, and ask for its descriptor.
//
// There are two ways of waiting for input. Ordinarily Go's poller does it, at
// next to no cost for any number of lines. A direct line is out of the poller,
// and the thread of its session waits in recv(2). That is quicker, but takes a
// thread and, for a while, its place in the scheduler: so there is one at most,
// that of a client which alone asks much, see [fastLane].
type line struct {
	put rawio.NonblockWriter

	mu   sync.Mutex // held to change the following, and by others to use them
	conn stream
	raw  syscall.RawConn // of conn
	fd   int             // of a line that has no conn, else -1
	ep   int             // the lobby's, while the line is there, else -1
	over bool            // closed

	// The following are set once, before anything is read.
	sockets *sockets
	unix    bool   // a Unix socket
	rights  bool   // in which a client may have queued descriptors
	uid     uint32 // of the client at a Unix socket
}

// A stream is a socket in Go's poller.
type stream interface {
	io.ReadWriteCloser
	syscall.Conn
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func (l *line) init(conn stream) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	l.conn, l.raw, l.fd, l.ep = conn, raw, -1, -1
	l.put.Init(raw)
	return nil
}

// lobby makes fd the line, which waits in the epoll set ep.
func (l *line) lobby(fd, ep int, k *sockets) {
	l.fd, l.ep, l.sockets = fd, ep, k
	l.put.InitSocket(uintptr(fd))
}

// number is the descriptor, for messages.
func (l *line) number() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 {
		return l.fd
	}
	return fdOf(l.conn)
}

// fdOf is the descriptor of v, -1 if it has none.
func fdOf(v any) (n int) {
	n = -1
	if c, ok := v.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { n = int(fd) })
		}
	}
	return n
}

// hurry has a wait for input end: now, or after patience if the line is direct.
func (l *line) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
	case l.conn != nil:
		l.conn.SetReadDeadline(time.Unix(1, 0))
	case l.ep >= 0: // as a rule it can be written to
		unix.EpollCtl(l.ep, unix.EPOLL_CTL_MOD, l.fd, &unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(l.fd)})
	}
}

// shut ends the connection as if the client had gone. Its session closes it.
func (l *line) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// close closes the connection. What the client has not taken yet goes out all the
// same: it may have closed its own side only, and wait for the rest of an answer.
//
// C pmcd differs: it resets the connection, and the rest is lost.
//
// A Unix socket is closed a moment later, see [closer].
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	l.control(func(fd uintptr) {
		if unsent, _ := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ); unsent > 0 {
			linger(fd)
		}
	})
	conn, fd, k := l.conn, l.fd, l.sockets
	closeIt := func() {
		if conn != nil {
			conn.Close()
		} else {
			unix.Close(fd)
		}
		k.open.Add(-1)
	}
	switch {
	case !l.unix:
		closeIt()
	case l.rights && !l.empty():
		k.held.close(l.uid, closeIt)
	default:
		k.closer.close(l.uid, closeIt)
	}
}

// control calls f with the descriptor.
func (l *line) control(f func(fd uintptr)) {
	if l.conn != nil {
		l.raw.Control(f)
		return
	}
	f(uintptr(l.fd))
}

// linger says that closing the line must not take back what is written.
func (l *line) linger() { l.raw.Control(linger) }

func linger(fd uintptr) {
	unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
}

// closeWrite says that nothing more will be written.
func (l *line) closeWrite() error {
	var err error
	cerr := l.raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, cerr)
}

// patience is how long a direct line is waited for at a time.
const patience = 4 * time.Millisecond

// heat makes the line direct, if it can.
func (l *line) heat() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd := -1
	l.raw.Control(func(old uintptr) { fd, _ = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if fd < 0 {
		return false
	}
	wait := unix.NsecToTimeval(int64(patience))
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait) != nil || unix.SetNonblock(fd, false) != nil {
		unix.Close(fd)
		return false
	}
	l.conn.Close() // takes the socket out of the poller
	l.conn, l.raw, l.fd = nil, nil, fd
	l.put.InitSocket(uintptr(fd))
	return true
}

// cool gives a direct line back to the poller. It takes nothing that may be
// missing.
func (l *line) cool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	unix.SetNonblock(l.fd, true)
	l.init(os.NewFile(uintptr(l.fd), "client"))
}

// direct is for the session.
func (l *line) direct() bool { return l.fd >= 0 && l.ep < 0 }

// recv reads from a direct line. It returns EAGAIN if nothing has come in time.
func (l *line) recv(b []byte) (n int, err error) {
	if l.rights {
		n, err = rawio.WaitNoRights(uintptr(l.fd), b[:min(len(b), rawio.MaxSyscallBytes)])
	} else {
		for {
			if n, err = unix.Read(l.fd, b); err != unix.EINTR {
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
