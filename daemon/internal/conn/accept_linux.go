package conn

import (
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// acceptOne accepts one connection at ln.
func (l *epollLoop) acceptOne(ln *epollListener) {
	if l.a.full() {
		l.a.notAccepted(l.a.fullText())
		l.rest(ln)
		return
	}
	fd, from, err := unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
		if ln.pause > 0 {
			ln.pause = 0
			l.a.acceptedAgain()
		}
		l.handleAccept(ln, fd, from)
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED: // the client has disconnected already
	default:
		// There are not enough descriptors or memory. Clients that are connected are
		// served; those in the backlog wait a little longer.
		l.a.notAccepted(acceptText(err))
		l.rest(ln)
	}
}

// rest stops watching a listening socket for a while.
func (l *epollLoop) rest(ln *epollListener) {
	l.watch(unix.EPOLL_CTL_DEL, ln.fd, 0) // without events there would still be EPOLLHUP
	time.AfterFunc(ln.pause.next(), func() { l.rewatch(ln.fd) })
}

// rewatch watches a listening socket again.
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
	l.a.count(1)
	l.a.tasks.Add(1)
	c := newLinuxConn(l, fd)
	if err := c.identify(ln, from); err != nil {
		l.a.warnPeer(err)
		go c.Close(nil) // tasks waits for it
		return
	}
	if n := l.a.sendBuffer; n > 0 {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
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
		c.peer.Unix, c.peer.Path = true, ln.path
		if err := c.guardRights(); err != nil { // first: the close depends on it
			return err
		}
		return c.peer.setCredentials(c.fd)
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
		c.unwritten = b
		l.promote(c)
	case c.state == detached:
		l.watchIdle(c)
	}
}
