package conn

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An epollLoop accepts connections and watches those that are idle. They have no
// goroutine: many clients connect only to look whether pmcd is there, and others
// stay for hours between two requests. It is one epoll(7) set, which is in Go's
// poller itself, and one goroutine.
type epollLoop struct {
	a         *Acceptor
	epoll     int
	file      *os.File // epoll
	raw       syscall.RawConn
	events    [64]unix.EpollEvent
	listeners map[int32]*epollListener // by descriptor
	idle      map[int32]*linuxConn     // likewise; of the goroutine of run
	idleCount atomic.Int64
	probes    chan chan struct{}
	idleTime  time.Duration

	batches   atomic.Uint64             // requests of all connections; several that came at once are one
	exclusive atomic.Pointer[linuxConn] // the connection in blocking-read mode, or nil

	closes     sync.WaitGroup // of Unix sockets in which descriptors may be queued
	heldCloses chan struct{}  // full while maxHeldCloses of these, with descriptors, are in progress

	// mu guards the following, which goroutines of Sessions change, and keeps
	// listeners that are added again from a set that is closed. It is locked before those
	// of connections.
	mu         sync.Mutex
	closed     bool
	returned   []*linuxConn // parked, and not watched yet
	interrupts []*linuxConn // interrupted while idle; may be served by now
	serving    map[*linuxConn]struct{}
	sweeping   bool // a sweep is due
}

// An epollListener is a listening socket.
type epollListener struct {
	fd    int
	path  string // of a Unix socket
	pause pause
}

const idleEvents = unix.EPOLLIN | unix.EPOLLRDHUP

// newLoop takes the sockets of the Listeners out of Go's poller.
func newLoop(a *Acceptor, cfg Config) (*epollLoop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(epoll, true) // for os.NewFile
	l := &epollLoop{
		a: a, epoll: epoll, file: os.NewFile(uintptr(epoll), "epoll"),
		listeners: make(map[int32]*epollListener),
		idle:      make(map[int32]*linuxConn),
		serving:   make(map[*linuxConn]struct{}),
		probes:    make(chan chan struct{}, 1),
		idleTime:  cfg.IdleTime,

		heldCloses: make(chan struct{}, maxHeldCloses),
	}
	l.raw, err = l.file.SyscallConn()
	for _, ln := range cfg.Listeners.all {
		if err == nil {
			err = ln.detach()
		}
		if err == nil {
			l.listeners[int32(ln.fd)] = &epollListener{fd: ln.fd, path: cfg.Listeners.unix}
			err = l.watch(unix.EPOLL_CTL_ADD, ln.fd, unix.EPOLLIN)
		}
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// detach takes a listening socket out of Go's poller.
func (l *listener) detach() error {
	if l.fd >= 0 {
		return nil
	}
	raw, err := l.Listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	fd := -1
	cerr := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, cerr); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	l.fd = fd
	l.Listener.Close()
	return nil
}

// watch changes what is watched for at fd.
func (l *epollLoop) watch(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// wake makes run look at its context, at probes, at returned and at interrupts.
func (l *epollLoop) wake() { l.file.SetReadDeadline(past) }

// probe returns nil when run has looked for connections once more. It returns an error when
// ctx ends.
func (l *epollLoop) probe(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case l.probes <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.wake()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run accepts connections until ctx ends, and then ends those that are idle. The error is
// why it ends before.
func (l *epollLoop) run(ctx context.Context) (err error) {
	defer context.AfterFunc(ctx, l.wake)()
	n := 0
	look := func(uintptr) bool {
		var err error
		if n, err = unix.EpollWait(l.epoll, l.events[:], 0); err != nil { // EINTR
			n = 0
		}
		return n > 0
	}
	for ctx.Err() == nil {
		if err = l.raw.Read(look); errors.Is(err, os.ErrDeadlineExceeded) {
			l.file.SetReadDeadline(time.Time{}) // first: what comes after that wakes again
			err = nil
			select {
			case done := <-l.probes:
				close(done)
			default:
			}
			for _, c := range l.takeReturned() {
				l.watchIdle(c)
			}
			for _, c := range l.takeInterrupts() {
				if c.isIdle() {
					l.promote(c)
				}
			}
			continue
		}
		if err != nil {
			break
		}
		for _, e := range l.events[:n] {
			if ln := l.listeners[e.Fd]; ln != nil {
				l.acceptOne(ln)
			} else if c := l.idle[e.Fd]; c != nil {
				l.onReadable(c)
			}
		}
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for _, c := range l.idle {
		l.end(c, io.EOF)
	}
	for _, c := range l.takeReturned() {
		l.end(c, io.EOF)
	}
	l.file.Close()
	return err
}

// stats fills in Idle and Exclusive.
func (l *epollLoop) stats(s *Stats) {
	s.Idle = int(l.idleCount.Load())
	s.Exclusive = l.exclusive.Load() != nil
}

// watchIdle watches a connection that is detached.
func (l *epollLoop) watchIdle(c *linuxConn) {
	if err := l.watch(unix.EPOLL_CTL_ADD, c.fd, idleEvents); err != nil {
		l.a.warn("wait", "a client was disconnected, because pmcd cannot wait for its next request: {error}", "error", err)
		l.end(c, io.EOF)
		return
	}
	l.idle[int32(c.fd)] = c
	l.idleCount.Add(1)
	c.mu.Lock()
	c.state = idle
	c.mu.Unlock()
	if c.interrupted() != nil { // before it was idle
		l.promote(c)
	}
}

// onReadable reads what the client of an idle connection sends, or notices that it
// has disconnected.
func (l *epollLoop) onReadable(c *linuxConn) {
	if c.interrupted() != nil {
		l.promote(c)
		return
	}
	if !c.tryRead(uintptr(c.fd)) {
		return
	}
	if len(c.in) > 0 && !c.served {
		if reply, handled := c.session.First(c.in); handled {
			c.dropInput()
			l.send(c, reply)
			return
		}
	}
	if c.readErr == io.EOF {
		l.unwatch(c)
		c.session.Disconnected()
		return
	}
	l.promote(c)
}

// end ends an idle connection.
func (l *epollLoop) end(c *linuxConn, err error) {
	c.readErr = err
	l.promote(c)
}
