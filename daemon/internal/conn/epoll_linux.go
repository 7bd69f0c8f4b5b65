package conn

import (
	"context"
	"errors"
	"io"
	"math"
	"net/netip"
	"os"
	"runtime"
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
	calmTime  time.Duration

	turns     atomic.Uint64             // requests of all connections, or several that came at once
	exclusive atomic.Pointer[linuxConn] // the connection in blocking-read mode, or nil

	closer     closer // of Unix sockets that hold no descriptors
	heldCloser closer // of those that may

	// mu guards the following, which goroutines of Sessions change, and keeps
	// listeners that are added again from a set that is closed.
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
func newLoop(a *Acceptor, cfg Config) (loop, error) {
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
		calmTime:  cfg.CalmTime,
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
		// While very many clients connect there is always more to do, and sessions
		// that run in the same place of the scheduler would run every 10 ms. Where
		// there are other places, to yield is to have a thread woken.
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched()
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

func (l *epollLoop) wait(grace time.Duration) {
	l.closer.wait(grace)
	l.heldCloser.wait(grace)
}

func (l *epollLoop) stats(s *Stats) {
	s.Idle = int(l.idleCount.Load())
	s.Exclusive = l.exclusive.Load() != nil
}

// acceptOne accepts one connection at ln.
func (l *epollLoop) acceptOne(ln *epollListener) {
	if l.a.full() {
		l.a.warnFull()
		l.rest(ln)
		return
	}
	fd, from, err := unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
		ln.pause = 0
		l.handleAccept(ln, fd, from)
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED: // the client has disconnected already
	default:
		// There are not enough descriptors or memory. Clients that are connected are
		// served; those in the backlog wait a little longer.
		l.a.warnAccept("%v", err)
		l.rest(ln)
	}
}

// rest does not look at a listening socket for a while.
func (l *epollLoop) rest(ln *epollListener) {
	l.watch(unix.EPOLL_CTL_DEL, ln.fd, 0) // without events there would still be EPOLLHUP
	time.AfterFunc(ln.pause.next(), func() { l.rewatch(ln.fd) })
}

// rewatch looks at a listening socket again.
func (l *epollLoop) rewatch(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
		time.AfterFunc(time.Second, func() { l.rewatch(fd) })
	}
}

// handleAccept has a Session made for a new connection, greets the client and
// watches the connection.
func (l *epollLoop) handleAccept(ln *epollListener, fd int, from unix.Sockaddr) {
	l.a.open.Add(1)
	l.a.tasks.Add(1)
	c := newLinuxConn(l, fd, Peer{})
	if err := c.identify(ln, from); err != nil {
		l.a.warn("peer", "cannot tell who connected: %v", err)
		go c.Close(nil) // tasks waits for it
		return
	}
	var greeting []byte
	c.session, greeting = l.a.handler.Accept(c)
	if greeting == nil {
		l.promote(c)
		return
	}
	l.send(c, greeting)
}

// identify fills in the Peer, as far as the socket says.
func (c *linuxConn) identify(ln *epollListener, from unix.Sockaddr) error {
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		c.peer.Addr = netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(from.Addr).Unmap()
		if from.ZoneId != 0 && ip.Is6() {
			ip = ip.WithZone(zoneName(c.fd, from.ZoneId))
		}
		c.peer.Addr = ip
	default:
		c.peer.Unix, c.peer.Path, c.peer.UID = true, ln.path, math.MaxUint32 // for the close
		if err := c.peer.setCredentials(c.fd); err != nil {
			return err
		}
		return c.guardRights()
	}
	return nil
}

// send writes b to a connection that is detached or idle, and watches it. If that
// is not possible without waiting, a goroutine does it.
func (l *epollLoop) send(c *linuxConn, b []byte) {
	var err error
	if !c.rights && len(b) > 0 { // otherwise a write may wait, see rawio.NonblockWriter
		b, err = c.writer.Write(b)
	}
	switch {
	case err != nil:
		l.end(c, io.EOF)
	case len(b) > 0:
		c.unsent = b
		l.promote(c)
	case c.state == detached:
		l.watchIdle(c)
	}
}

// watchIdle watches a connection that is detached.
func (l *epollLoop) watchIdle(c *linuxConn) {
	if err := l.watch(unix.EPOLL_CTL_ADD, c.fd, idleEvents); err != nil {
		l.a.warn("wait", "cannot wait for a client: %v", err)
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

// promote has the Session of a connection served by a goroutine of its own.
func (l *epollLoop) promote(c *linuxConn) {
	if c.state == idle {
		l.unwatch(c)
	}
	l.mu.Lock()
	l.serving[c] = struct{}{}
	if !l.sweeping && !l.closed {
		l.sweeping = true
		time.AfterFunc(l.calmTime, l.sweep)
	}
	l.mu.Unlock()
	go c.session.Serve()
}

// unwatch detaches an idle connection.
func (l *epollLoop) unwatch(c *linuxConn) {
	delete(l.idle, int32(c.fd))
	l.idleCount.Add(-1)
	// Even before a close: the set has what is behind fd for as long as a process
	// that is being started does, and would report it again and again.
	l.watch(unix.EPOLL_CTL_DEL, c.fd, 0)
	c.mu.Lock()
	c.state = detached
	c.mu.Unlock()
}

// park hands a detached connection to the acceptor, and reports true: from then on
// another goroutine may serve it. If the acceptor has ended, park reports false and
// the connection ends.
func (c *linuxConn) park() bool {
	l := c.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.readErr = io.EOF
		return false
	}
	delete(l.serving, c)
	c.swept.Store(false)
	if l.returned = append(l.returned, c); len(l.returned) == 1 {
		l.wake()
	}
	return true
}

// takeReturned returns the connections that were parked since the last call.
func (l *epollLoop) takeReturned() []*linuxConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.returned
	l.returned = nil
	return list
}

// interrupt has run promote a connection that was idle when it was interrupted. The
// epoll set cannot do it: there may never be input, nor room for output.
func (l *epollLoop) interrupt(c *linuxConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // run promotes all
		return
	}
	if l.interrupts = append(l.interrupts, c); len(l.interrupts) == 1 {
		l.wake()
	}
}

// takeInterrupts returns the connections that were interrupted since the last call.
func (l *epollLoop) takeInterrupts() []*linuxConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.interrupts
	l.interrupts = nil
	return list
}

// isIdle reports whether the state is idle. Only the goroutine of run ends this
// state; for others it may be over at once.
func (c *linuxConn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == idle
}

// sweep parks the connections that had no request since the last sweep, and comes
// again while there are others.
func (l *epollLoop) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sweeping = len(l.serving) > 0 && !l.closed; !l.sweeping {
		return
	}
	for c := range l.serving {
		if !c.swept.Swap(true) {
			continue
		}
		c.requestPark()
	}
	time.AfterFunc(l.calmTime, l.sweep)
}

// requestPark ends a wait of Go's poller, so that Wait parks the connection. Where
// the connection does not wait for a request, the next Wait parks it, which does no
// harm.
func (c *linuxConn) requestPark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == polled {
		c.parking.Store(true)
		c.stream.SetReadDeadline(past)
	}
}
