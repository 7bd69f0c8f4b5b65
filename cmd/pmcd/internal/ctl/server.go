package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// Path returns the path of the socket on which a pmcd serves its Report. The argument
// is the path of its socket for clients (pmcd -s).
func Path(socket string) string {
	return strings.TrimSuffix(socket, ".socket") + ".ctl"
}

const (
	// maxPeers is how many connections are served at the same time; others wait.
	maxPeers = 8
	// defaultWriteTime is how long a peer may take to read the Report.
	defaultWriteTime = 5 * time.Second
)

// A Server sends a Report to each process that connects to its socket.
type Server struct {
	ln   *net.UnixListener
	path string
	file os.FileInfo     // of the socket
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	writeTime time.Duration // defaultWriteTime, except in tests
}

// Listen creates the socket. It replaces a socket that no process serves, and returns
// an error if a process does. The process must have become the user that pmcd runs as.
func Listen(path string) (*Server, error) {
	s := &Server{path: path, writeTime: defaultWriteTime}
	err := locked(filepath.Dir(path), func() (err error) {
		s.ln, err = safepath.Listen(path, 0o755)
		if errors.Is(err, syscall.EADDRINUSE) {
			if err = clear(path); err == nil {
				s.ln, err = safepath.Listen(path, 0o755)
			}
		}
		if err != nil {
			return err
		}
		s.ln.SetUnlinkOnClose(false) // the path may belong to another process then
		// The mode keeps other users out, and Serve checks the user in any case.
		if s.file, err = os.Lstat(path); err != nil {
			s.ln.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// locked calls f with a lock on dir, so that one pmcd at a time creates or removes a
// socket there. It waits for the lock for a second at most, and then calls f without
// it: any user that can read a directory can lock it.
func locked(dir string, f func() error) error {
	if d, err := regular.OpenDir(dir); err == nil {
		defer d.Close()
		end := time.Now().Add(time.Second)
		for syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK && time.Now().Before(end) {
			<-time.After(5 * time.Millisecond)
		}
	}
	return f()
}

// clear removes a socket that no process serves.
func clear(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket", path)
	case served(path):
		return fmt.Errorf("%s is in use by another pmcd", path)
	}
	return safepath.Remove(path)
}

// served reports whether a process listens at path.
func served(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, fs.ErrPermission): // root's socket; it may have no process either
		return Listening(path)
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// Listening reports whether a process listens at the Unix domain socket path. It reads
// the kernel's list (proc(5), /proc/net/unix) and does not connect. If the list cannot
// be read, it reports true, because a process may listen.
func Listening(path string) bool {
	const acceptCon = "00010000" // __SO_ACCEPTCON in the flags
	text, err := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path
		f := strings.Fields(line)
		if len(f) > 7 && f[3] == acceptCon && strings.HasSuffix(strings.TrimSuffix(line, "\n"), " "+path) {
			return true
		}
	}
	return err != nil
}

// Serve starts to accept connections and returns. Each peer that is root or pmcd's user
// gets what report returns. Several goroutines may call report at the same time. Close
// ends Serve.
func (s *Server) Serve(report func() *Report) {
	s.wg.Go(func() {
		slots := make(chan struct{}, maxPeers)
		for {
			select {
			case slots <- struct{}{}:
			case <-s.ctx.Done():
				return
			}
			conn, err := s.ln.AcceptUnix()
			if err == nil {
				s.wg.Go(func() {
					defer func() { <-slots }()
					s.send(conn, report)
				})
				continue
			}
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // no descriptor is left; try again later
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
		}
	})
}

// send sends the Report to a peer that may have it.
func (s *Server) send(conn *net.UnixConn, report func() *Report) {
	defer conn.Close()
	if cred, err := peerCred(conn); err != nil || cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return
	}
	b, err := json.Marshal(report())
	if err != nil {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(s.writeTime))
	stop := context.AfterFunc(s.ctx, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	conn.Write(append(b, '\n'))
}

// peerCred returns the credentials of the peer.
func peerCred(conn *net.UnixConn) (cred *syscall.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	cerr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return cred, errors.Join(err, cerr)
}

// Close ends Serve and waits for its goroutines. It removes the socket, unless another
// process has replaced it.
func (s *Server) Close() error {
	s.stop()
	err := locked(filepath.Dir(s.path), func() error {
		err := s.ln.Close()
		if fi, err2 := os.Lstat(s.path); err2 == nil && os.SameFile(fi, s.file) {
			err = errors.Join(err, safepath.Remove(s.path))
		}
		return err
	})
	s.wg.Wait()
	return err
}
