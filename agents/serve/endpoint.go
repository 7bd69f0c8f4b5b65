package serve

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
)

// An endpoint is where pmcd comes in: a pipe that is there already or a socket that
// takes one connection (pmdaConnect(3)).
type endpoint struct {
	pipe     io.ReadWriteCloser
	listener net.Listener
}

// openEndpoint opens the transport of s. TCP is on the loopback address only, as in
// libpcp_pmda: whoever connects is believed to be pmcd.
func (r *runner) openEndpoint(s *settings) (*endpoint, error) {
	var l net.Listener
	var err error
	switch s.transport {
	case 'i':
		l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", s.address))
	case '6':
		l, err = net.Listen("tcp6", net.JoinHostPort("::1", s.address))
	case 'u':
		l, err = listenUnix(s.address, s.Log)
	default:
		return &endpoint{pipe: stdio{r.stdin, r.stdout}}, nil
	}
	if err != nil {
		return nil, err
	}
	s.Log.Debug("listening", "address", l.Addr())
	return &endpoint{listener: l}, nil
}

// accept returns the stream, for which it waits until ctx ends. A socket has
// served its purpose then.
func (e *endpoint) accept(ctx context.Context) (io.ReadWriteCloser, error) {
	if e.listener == nil {
		return e.pipe, nil
	}
	defer e.listener.Close()
	defer context.AfterFunc(ctx, func() { e.listener.Close() })()
	return e.listener.Accept()
}

// close leaves nobody waiting: whoever is at the pipe, or came too late.
func (e *endpoint) close() {
	if e.listener != nil {
		e.listener.Close()
	} else {
		e.pipe.Close()
	}
}

// listenUnix opens a socket for pmcd, which may run as root or as PCP's user.
// A socket that is there is removed, and this one stays after the end, as with
// libpcp_pmda. A file that is no socket is left: it would be a mistake.
func listenUnix(path string, log *slog.Logger) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		log.Warn("socket exists, unlinked it", "path", path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	owner := pcpUser()
	u, err := user.Lookup(owner)
	if err != nil {
		log.Warn("socket keeps its owner", "error", err)
	}
	// Not for everybody, as with dbpmda(1): no failure.
	if err := os.Chmod(path, 0o660); err != nil {
		log.Debug("socket keeps its mode", "error", err)
	}
	if u != nil {
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Lchown(path, uid, gid); err != nil {
			log.Debug("socket keeps its owner", "error", err)
		}
	}
	return l, nil
}

// pcpUser is the account that PCP's programs run as (pmGetUsername(3)).
func pcpUser() string { return cmp.Or(os.Getenv("PCP_USER"), "pcp") }

// stdio are the ends of two pipes, or one stream twice.
type stdio struct {
	io.Reader
	io.Writer
}

// Close closes what can be closed.
func (s stdio) Close() error {
	for _, v := range []any{s.Writer, s.Reader} {
		if c, ok := v.(io.Closer); ok {
			c.Close()
		}
	}
	return nil
}
