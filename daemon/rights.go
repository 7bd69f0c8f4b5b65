package daemon

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/rawio"
)

// Unix sockets in which clients may have queued descriptors. Package [rawio] says
// why that matters.

// guard says that the line, which is not in the poller yet, is the Unix socket of
// a client of uid's, and finds out what may be queued in it. The option is asked
// of the socket itself: Linux before 6.16 does not know it, and a connection that
// was made before pmcd had the listening socket has it as it was then.
func (l *line) guard(uid uint32) error {
	l.unix, l.uid = true, uid
	if on, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil && on == 0 {
		return nil
	}
	l.rights, l.put.Rights = true, true
	unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 0) // since Linux 6.5
	return rawio.RefuseRights(uintptr(l.fd))
}

// readNow reads what is there from fd, which is that of the line.
func (l *line) readNow(fd uintptr, b []byte) (int, error) {
	b = b[:min(len(b), rawio.MaxSyscallBytes)] // with a large -L the buffer may have grown
	if l.rights {
		return rawio.ReadNoRights(fd, b)
	}
	return rawio.Read(fd, b)
}

// read reads from a line that is in the poller, until its deadline.
func (l *line) read(b []byte) (n int, err error) {
	if !l.rights {
		return l.conn.Read(b)
	}
	rerr := l.raw.Read(func(fd uintptr) bool {
		n, err = l.readNow(fd, b)
		return err != syscall.EAGAIN
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case n == 0 && err == nil:
		return 0, io.EOF
	}
	return n, err
}

// maxScrap is how often empty reads. What a client can have sent is less, unless
// an admin has made the buffers of all sockets large.
const maxScrap = 256

// empty ends the connection, takes what the client has sent that was not read, and
// reports whether no descriptors are left in it: then the close frees nothing of
// the client's. The client sees the end now, however long the close waits for its
// turn. What was written to it is there for it to read.
func (l *line) empty() (ok bool) {
	var scrap [4 << 10]byte
	l.control(func(fd uintptr) {
		if unix.Shutdown(int(fd), unix.SHUT_RDWR) != nil { // nothing comes any more
			return
		}
		for range maxScrap {
			if n, err := rawio.ReadNoRights(fd, scrap[:]); n == 0 {
				ok = err == nil
				return
			}
		}
	})
	return ok
}

// greetApart greets a client on a goroutine of its own: the write may block, see
// [rawio.NonblockWriter].
func (b *lobby) greetApart(s *session) {
	s.err = s.meet()
	b.mu.Lock()
	b.greeted = append(b.greeted, s)
	closed := b.closed
	b.mu.Unlock()
	if closed {
		b.endGreeted()
		return
	}
	b.wake()
}

// takeGreeted returns the clients that greetApart has greeted since the last call.
func (b *lobby) takeGreeted() []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.greeted
	b.greeted = nil
	return list
}

// endGreeted ends the sessions of clients that were greeted too late to be waited
// for.
func (b *lobby) endGreeted() {
	for _, s := range b.takeGreeted() {
		s.err = io.EOF
		s.End()
	}
}
