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
)

// Path returns where the pmcd that has the socket for clients at socket (pmcd
// -s) serves its Report.
func Path(socket string) string {
	return strings.TrimSuffix(socket, ".socket") + ".ctl"
}

const (
	// maxPeers is how many are served at the same time; others wait.
	maxPeers = 8
	// writeTime is how long a peer may take to read.
	writeTime = 5 * time.Second
)

// A Server hands out Reports.
type Server struct {
	ln   *net.UnixListener
	path string
	file os.FileInfo     // of the socket
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Listen makes the socket. A socket that a pmcd still serves is left alone, and is an
// error; one that no process serves is replaced. The process must have become the user
// that pmcd runs as.
func Listen(path string) (*Server, error) {
	s := &Server{path: path}
	err := locked(filepath.Dir(path), func() (err error) {
		addr := &net.UnixAddr{Name: path, Net: "unix"}
		s.ln, err = net.ListenUnix("unix", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			if err = clear(path); err == nil {
				s.ln, err = net.ListenUnix("unix", addr)
			}
		}
		if err != nil {
			return err
		}
		s.ln.SetUnlinkOnClose(false) // it may be another one's by then
		// No chmod: others are kept out by the umask, and by Serve in any case.
		// What is there by now may be a link.
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

// locked calls f while no other pmcd is in its own f for a socket in dir.
// Any user that may read a directory may lock it, so the wait is limited to a second.
func locked(dir string, f func() error) error {
	if d, err := os.Open(dir); err == nil {
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
	return os.Remove(path)
}

// served reports whether a process listens at path.
func served(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, fs.ErrPermission): // one of root's; it may be left behind, too
		return Listening(path)
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// Listening reports whether a process listens at the Unix domain socket of that name.
// It looks at the list of the kernel (proc(5), /proc/net/unix) and does not connect.
// Without the list it reports true, as a process may listen.
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

// Serve hands out what report returns until Close. It is called by several
// goroutines.
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
					s.answer(conn, report)
				})
				continue
			}
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // descriptors have run out
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
		}
	})
}

func (s *Server) answer(conn *net.UnixConn, report func() *Report) {
	defer conn.Close()
	if cred, err := peerCred(conn); err != nil || cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return
	}
	b, err := json.Marshal(report())
	if err != nil {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(writeTime))
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

// Close ends Serve and removes the socket, unless it is another one by now.
func (s *Server) Close() error {
	s.stop()
	err := locked(filepath.Dir(s.path), func() error {
		err := s.ln.Close()
		if fi, err2 := os.Lstat(s.path); err2 == nil && os.SameFile(fi, s.file) {
			err = errors.Join(err, os.Remove(s.path))
		}
		return err
	})
	s.wg.Wait()
	return err
}
