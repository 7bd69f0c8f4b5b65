package root

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pdu"
)

// A server answers requests of other agents at the socket of pmdaroot. It gives
// information about containers and nothing else: it starts and ends no process.
type server struct {
	table *table
	path  string
	log   *slog.Logger
	peers []uint32 // users that may connect, besides root

	ended chan struct{} // closed by close
	wg    sync.WaitGroup

	mu       sync.Mutex // guards the following
	listener *net.UnixListener
	file     os.FileInfo // of the socket
	conns    map[net.Conn]bool
	logged   string          // why it does not listen
	refused  map[uint32]bool // users that were logged because they may not connect
}

const (
	maxClients = 64
	// requestTimeout is how long a client may take to send the rest of a request, or
	// to read the reply.
	requestTimeout = 5 * time.Second
	// recheck is how often the server looks whether the socket is still its own, and
	// tries to listen if it is not.
	recheck = 10 * time.Second
)

// startServer starts a server at path. If another process listens there, or if it
// cannot listen, it tries again from time to time.
func startServer(t *table, path string, log *slog.Logger) *server {
	s := &server{table: t, path: path, log: log, peers: pcpUsers(), ended: make(chan struct{}), conns: make(map[net.Conn]bool), refused: make(map[uint32]bool)}
	s.check()
	s.wg.Go(func() {
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.check()
			case <-s.ended:
				return
			}
		}
	})
	return s
}

// close ends the server and removes its socket. It may be called again.
func (s *server) close() error {
	s.mu.Lock()
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
	s.stopListening()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// stopListening removes the socket if it is this server's. The caller holds mu.
func (s *server) stopListening() {
	if s.listener == nil {
		return
	}
	if s.isOwn() {
		safepath.Remove(s.path)
	}
	s.listener.Close()
	s.listener = nil
}

// isOwn reports whether the file at the path is the socket of the listener.
func (s *server) isOwn() bool {
	fi, err := os.Lstat(s.path)
	return err == nil && os.SameFile(fi, s.file)
}

// check listens if the server does not, or if its socket has been removed or replaced.
func (s *server) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return
	default:
	}
	if s.listener != nil && s.isOwn() {
		return
	}
	l, err := listen(s.path)
	if err != nil {
		if s.listener == nil && err.Error() != s.logged { // else those that are connected are still served
			s.logged = err.Error()
			s.log.Warn("{agent}: agents cannot ask this agent about containers: {error}", "error", err)
		}
		return
	}
	s.stopListening()
	if s.file, err = os.Lstat(s.path); err != nil {
		l.Close()
		return
	}
	if s.logged != "" {
		s.log.Info("{agent}: agents can ask this agent about containers at {path}", "path", s.path)
		s.logged = ""
	}
	s.listener = l
	s.wg.Go(func() { s.accept(l) })
}

// errInUse is the error if another process listens at the socket.
var errInUse = errors.New("another process, probably pmdaroot, listens at the socket")

// listen listens at path. It replaces a socket at which no process listens any more,
// and makes the directory if there is none.
func listen(path string) (*net.UnixListener, error) {
	above, err := safepath.Make(filepath.Dir(filepath.Dir(path)), 0o755)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := os.Mkdir(above.Join(filepath.Base(filepath.Dir(path))), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, above.Err(err)
	}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is not a socket", path)
	default:
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w %s", errInUse, path)
		}
		if err := safepath.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	l, err := safepath.Listen(path, 0o755)
	if err == nil {
		l.SetUnlinkOnClose(false) // another process may have replaced it by then
	}
	return l, err
}

// accept accepts clients until the listener is closed.
func (s *server) accept(l *net.UnixListener) {
	pause := 5 * time.Millisecond
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too few descriptors
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-s.ended:
			}
			t.Stop()
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		s.mu.Lock()
		select {
		case <-s.ended:
			conn.Close()
		default:
			if len(s.conns) >= maxClients {
				conn.Close()
				break
			}
			s.conns[conn] = true
			s.wg.Go(func() { s.serve(conn) })
		}
		s.mu.Unlock()
	}
}

// serve serves a client.
func (s *server) serve(conn *net.UnixConn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	peer, err := pmdaroot.Peer(conn)
	if err != nil || !s.allowed(peer) {
		s.refuse(peer)
		return
	}
	b := appendInfo(nil)
	for {
		if err := conn.SetWriteDeadline(time.Now().Add(requestTimeout)); err != nil {
			return
		}
		if _, err := conn.Write(b); err != nil {
			return
		}
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			return
		}
		q, err := readRequest(conn, func() { conn.SetReadDeadline(time.Now().Add(requestTimeout)) })
		if err != nil {
			if errors.Is(err, errMessage) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
				s.log.Warn("{agent}: closing the connection of process {peer_pid} of user {uid}: {error}", "peer_pid", peer.Pid, "uid", peer.Uid, "error", err)
			}
			return
		}
		b = s.reply(b[:0], q)
	}
}

// reply appends the reply to a request.
func (s *server) reply(b []byte, q request) []byte {
	switch q.typ {
	case msgStart, msgStop:
		return appendDenied(b, q)
	}
	if q.name == "" { // HOSTNAME of a process
		first, any := s.table.ofProcess(int(q.pid))
		if !any {
			return appendReply(b, q.typ, int32(pdu.ErrnoNoContainer), int(q.pid), "")
		}
		return s.replyHostName(b, first, int(q.pid))
	}
	name, _, _ := strings.Cut(q.name, "\x00") // as pmdaroot takes it
	c := s.table.find(name)
	switch {
	case c == nil:
		return appendReply(b, q.typ, int32(pdu.ErrnoNoContainer), 0, "")
	case q.typ == msgProcessID:
		return appendReply(b, q.typ, 0, c.pid, "")
	case q.typ == msgCgroup:
		return appendReply(b, q.typ, 0, c.pid, c.cgroup[1:])
	}
	return s.replyHostName(b, c, c.pid)
}

// replyHostName appends the reply with the host name of a process.
//
// C differs: if it fails, the name is 64 bytes of an earlier one.
func (s *server) replyHostName(b []byte, c *container, pid int) []byte {
	name, err := s.table.hostName(c, pid)
	if err != nil {
		return appendReply(b, msgHostName, errnoOf(err), pid, "")
	}
	return appendReply(b, msgHostName, 0, pid, name)
}
