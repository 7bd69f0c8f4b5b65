package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/pdu"
)

// A lobby is where clients are let in, greeted and waited for until they first
// ask for something. They have no goroutine until then: many only look whether
// somebody is there. It is one epoll(7) set, which is in Go's poller itself.
type lobby struct {
	d      *Daemon
	ep     int
	file   *os.File // ep
	raw    syscall.RawConn
	ready  [64]unix.EpollEvent
	guests map[int32]*session // by descriptor
	doors  map[int32]*door    // likewise
	beats  chan chan struct{} // closed by run when it gets to them

	mu      sync.Mutex // held by who changes what is waited for at doors; guards the following
	closed  bool
	greeted []*session // by greetApart, and not waited for yet
}

// A door is a listening socket.
type door struct {
	fd    int
	pause time.Duration // how long it was closed last
}

// openLobby returns the lobby with the doors ls, which whoever called keeps.
func (d *Daemon) openLobby(ls *Listeners) (*lobby, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(ep, true) // for os.NewFile
	b := &lobby{d: d, ep: ep, file: os.NewFile(uintptr(ep), "lobby"), guests: make(map[int32]*session), doors: make(map[int32]*door), beats: make(chan chan struct{}, 1)}
	b.raw, err = b.file.SyscallConn()
	for _, l := range ls.all {
		b.doors[int32(l.fd)] = &door{fd: l.fd}
		if err == nil {
			err = b.wait(unix.EPOLL_CTL_ADD, l.fd, unix.EPOLLIN)
		}
	}
	if err != nil {
		b.file.Close()
		return nil, err
	}
	return b, nil
}

// wait changes what is waited for at fd.
func (b *lobby) wait(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(b.ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// wake has run look at ctx and at beats.
func (b *lobby) wake() { b.file.SetReadDeadline(time.Unix(1, 0)) }

// beat returns when run has made a turn, or when ctx ends.
func (b *lobby) beat(ctx context.Context) error {
	turn := make(chan struct{})
	select {
	case b.beats <- turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	b.wake()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run lets clients in until ctx ends. Then the sessions of all guests end. The
// error is why it ends before.
func (b *lobby) run(ctx context.Context) (err error) {
	defer context.AfterFunc(ctx, b.wake)()
	n := 0
	look := func(uintptr) bool {
		var err error
		if n, err = unix.EpollWait(b.ep, b.ready[:], 0); err != nil { // EINTR
			n = 0
		}
		return n > 0
	}
	for ctx.Err() == nil {
		if err = b.raw.Read(look); errors.Is(err, os.ErrDeadlineExceeded) {
			b.file.SetReadDeadline(time.Time{}) // first: what comes after that wakes again
			err = nil
			select {
			case turn := <-b.beats:
				close(turn)
			default:
			}
			for _, s := range b.takeGreeted() {
				b.park(s)
			}
			continue
		}
		if err != nil {
			break
		}
		for _, e := range b.ready[:n] {
			if d := b.doors[e.Fd]; d != nil {
				b.answer(d)
			} else if s := b.guests[e.Fd]; s != nil {
				b.hear(s, e.Fd)
			}
		}
		// In a storm of clients there is always more to do, and sessions with the
		// same place in the scheduler would have theirs every 10 ms. Where there
		// are other places, to yield is to have a thread woken.
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched()
		}
	}
	for fd, s := range b.guests {
		s.err = io.EOF
		b.lead(s, fd)
	}
	b.mu.Lock()
	b.closed = true
	b.file.Close()
	b.mu.Unlock()
	b.endGreeted()
	return err
}

// answer lets one client in.
func (b *lobby) answer(d *door) {
	if k := &b.d.sockets; k.full() {
		b.rest(d, "%d clients are connected, as many as RLIMIT_NOFILE allows beside what agents need; others wait until some leave", k.open.Load())
		return
	}
	fd, from, err := unix.Accept4(d.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
		d.pause = 0
		b.welcome(fd, from)
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED: // it has thought better of it
	default:
		// Descriptors or memory have run out. Those who are connected are
		// served; who waits in the backlog waits a little longer.
		b.rest(d, "%v", err)
	}
}

// rest says why no client is accepted at a door, and looks there again a little
// later.
func (b *lobby) rest(d *door, format string, args ...any) {
	b.warn("accept", "AcceptNewClient: "+format, args...)
	d.pause = min(max(2*d.pause, 5*time.Millisecond), time.Second)
	b.wait(unix.EPOLL_CTL_DEL, d.fd, 0) // without events there would still be EPOLLHUP
	time.AfterFunc(d.pause, func() { b.reopen(d.fd) })
}

// reopen waits at a door again.
func (b *lobby) reopen(fd int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.wait(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
		time.AfterFunc(time.Second, func() { b.reopen(fd) })
	}
}

// warn logs what others can cause again and again.
func (b *lobby) warn(key, format string, args ...any) {
	b.d.sessionTasks.Go(func() { b.d.limiter.Printf(key, format, args...) })
}

// welcome greets a client, and waits for what it says, or shows it out.
func (b *lobby) welcome(fd int, from unix.Sockaddr) {
	s := &session{d: b.d, since: time.Now()}
	s.tryRead = s.read
	b.d.sockets.open.Add(1)
	s.line.lobby(fd, b.ep, &b.d.sockets)
	err := s.identify(fd, from)
	if err != nil {
		b.warn("peer", "cannot tell who connected: %v", err)
		s.greet(errnoOf(err))
		s.line.close()
		return
	}
	s.needsCert = b.d.needsCert(s.peer)
	b.d.clients.add(s)
	b.d.sessionTasks.Add(1)
	if s.line.rights {
		go b.greetApart(s) // is waited for as the session is
		return
	}
	s.err = s.meet()
	b.park(s)
}

// park waits for what a client says that was greeted, unless s.err says why not.
func (b *lobby) park(s *session) {
	fd := s.line.fd
	if s.err == nil {
		err := b.wait(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP)
		if err == nil {
			b.guests[int32(fd)] = s
			if s.refused.Load() != 0 {
				s.line.hurry() // it was not waited for when refuse did so
			}
			return
		}
		b.warn("wait", "cannot wait for a client: %v", err)
		s.err = io.EOF
	}
	b.lead(s, int32(fd))
}

// hear reads what a guest says, or sees that it goes.
func (b *lobby) hear(s *session, fd int32) {
	w := s.newWork()
	n, err := s.line.readNow(uintptr(fd), w.in[:cap(w.in)])
	w.in = w.in[:n]
	switch {
	case s.refused.Load() != 0:
		s.err = errRefused
	case n == 0 && err == unix.EAGAIN:
	case err == rawio.ErrRights:
		s.err = err
	case n == 0:
		s.err = io.EOF
	case b.mayStay(s, w):
		s.err = s.dispatch(w, w.in)
	default:
		s.input, w = w, nil
	}
	if w != nil {
		w.release(s)
	}
	if s.err != nil || s.input != nil {
		b.lead(s, fd)
	}
}

// mayStay reports whether a guest has only stated its version, for the first
// time, and nobody needs to be asked whether that is all right.
func (b *lobby) mayStay(s *session, w *work) bool {
	n, err := pdu.Frame(w.in, b.d.cfg.MaxPDU)
	_, t, _ := pdu.Header(w.in)
	return err == nil && n == len(w.in) && t == pdu.TypeCreds && s.version.Load() == 0 && !b.d.credsReqd.Load()
}

// lead has a guest's session go on, in a goroutine of its own unless it is over.
func (b *lobby) lead(s *session, fd int32) {
	delete(b.guests, fd)
	// Even before a close: the set has what is behind fd for as long as a process
	// that is being started does, and would report it again and again.
	b.wait(unix.EPOLL_CTL_DEL, int(fd), 0)
	if s.err == io.EOF {
		s.End()
		return
	}
	s.line.cool()
	go b.d.turnPool.Serve(s)
}
