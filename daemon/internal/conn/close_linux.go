package conn

import (
	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
)

// Close implements Conn.
//
// C pmcd differs: it resets the connection, and what the client has not read yet is
// lost.
//
// A Unix socket is closed a moment later, see [closer].
func (c *linuxConn) Close(last []byte) {
	c.leaveBlocking()
	c.dropInput()
	if last != nil {
		if c.state == detached {
			c.attach()
		}
		c.loop.a.linger(c, last)
	}
	c.loop.mu.Lock()
	delete(c.loop.serving, c)
	c.loop.mu.Unlock()
	defer c.loop.a.tasks.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control(func(fd uintptr) {
		if unsent, _ := ioctlInt(fd, unix.TIOCOUTQ); unsent > 0 {
			keepUnsent(fd)
		}
	})
	empty := !c.rights || c.empty()
	stream, fd, l := c.stream, c.fd, c.loop
	c.stream, c.raw, c.fd, c.state = nil, nil, -1, closed
	closeFD := func() {
		if stream != nil {
			stream.Close()
		} else {
			unix.Close(fd)
		}
		l.a.count(-1)
	}
	switch {
	case !c.peer.Unix:
		closeFD()
	case empty:
		l.closer.close(c.peer.UID, closeFD)
	default:
		l.heldCloser.close(c.peer.UID, closeFD)
	}
}

// keepUnsent makes the system deliver what is written after the close.
func (c *linuxConn) keepUnsent() { c.control(keepUnsent) }

// keepUnsent turns SO_LINGER off, with which connections are reset by a close.
func keepUnsent(fd uintptr) {
	unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
}

func (c *linuxConn) closeWrite() (err error) {
	c.control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return err
}

// guardRights finds out whether descriptors may be queued in a Unix socket, and
// prepares it for reads that refuse them. The option is asked of the socket itself:
// Linux before 6.16 does not know it, and a connection that was made before pmcd had
// the listening socket has it as it was then.
func (c *linuxConn) guardRights() error {
	if on, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil && on == 0 {
		return nil
	}
	c.rights, c.writer.Rights = true, true
	unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 0) // since Linux 6.5
	return rawio.RefuseRights(uintptr(c.fd))
}

// maxDiscards is how many times empty reads. What a client can have sent is less,
// unless an admin has made the buffers of all sockets large.
const maxDiscards = 256

// empty ends the connection, takes what the client has sent that was not read, and
// reports whether no descriptors are left in it: then the close frees nothing of
// the client's. The client sees the end now, however long the close waits for its
// turn. What was written to it is there for it to read.
func (c *linuxConn) empty() (ok bool) {
	var b [4 << 10]byte
	c.control(func(fd uintptr) {
		if unix.Shutdown(int(fd), unix.SHUT_RDWR) != nil { // nothing comes any more
			return
		}
		for range maxDiscards {
			if n, err := rawio.ReadNoRights(fd, b[:]); n == 0 {
				ok = err == nil
				return
			}
		}
	})
	return ok
}
