package conn

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/rawio"
)

// Close implements Conn.
//
// C pmcd differs: it resets the connection, and what the client has not read yet is
// lost.
//
// A Unix socket in which descriptors may be queued is closed by another goroutine, as
// Disconnected calls Close on the acceptor's. To close the last descriptor of a TCP socket
// can take as long as its SO_LINGER says. While maxHeldCloses wait for that, sockets in which
// descriptors are left stay open: package runtime ends a process with 10,000 threads that are
// blocked. In the others the close frees nothing of the client's. At most one of them waits
// at a time: the one that runs the garbage collector of sockets in flight (Linux before 6.8).
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
	c.control(func(fd uintptr) {
		if unsent, _ := ioctlInt(fd, unix.TIOCOUTQ); unsent > 0 {
			keepUnsent(fd)
		}
	})
	held := c.rights && !c.empty()
	stream, fd, l := c.stream, c.fd, c.loop
	c.stream, c.raw, c.fd, c.state = nil, nil, -1, closed
	c.mu.Unlock() // count may call functions of others
	closeFD := func() {
		if stream != nil {
			stream.Close()
		} else {
			unix.Close(fd)
		}
		l.a.count(-1)
	}
	switch {
	case held:
		l.closes.Go(func() {
			l.heldCloses <- struct{}{}
			closeFD()
			<-l.heldCloses
		})
	case c.rights:
		l.closes.Go(closeFD)
	default:
		closeFD()
	}
}

// maxHeldCloses is how many sockets in which descriptors are left are closed at a time.
const maxHeldCloses = 16

// linger writes last to the client and waits until the client has closed its side,
// for LingerTime at most.
func (a *Acceptor) linger(c *linuxConn, last []byte) {
	defer context.AfterFunc(a.killed, c.Abort)()
	defer a.lingering.Add(-1)
	c.keepUnsent()
	n := a.lingering.Add(1)
	if _, err := c.Write(last); err != nil || n > MaxLingering || c.closeWrite() != nil {
		return
	}
	// All is written. When the daemon ends it is left to the system to deliver it,
	// once the input that is there by then is read.
	defer context.AfterFunc(a.ending, c.Abort)()
	for end := time.Now().Add(LingerTime); time.Now().Before(end); {
		// Interrupt may have set a deadline of its own just now.
		if err := c.discard(end); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
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
