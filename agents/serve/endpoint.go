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

	"github.com/gopcp/pmcd/internal/safepath"
)

// An endpoint is what pmcd connects to (pmdaConnect(3)): the pipe that it made,
// or a listener that accepts one connection.
type endpoint struct {
	pipe     io.ReadWriteCloser // nil if there is a listener
	listener net.Listener
}

// openEndpoint opens the pipe or listener that s selects. TCP listens on the
// loopback address only, as in libpcp_pmda, because any process that connects is
// taken for pmcd.
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

// accept returns the stream to pmcd. It waits for a connection until ctx ends,
// and then closes the listener.
func (e *endpoint) accept(ctx context.Context) (io.ReadWriteCloser, error) {
	if e.listener == nil {
		return e.pipe, nil
	}
	defer e.listener.Close()
	defer context.AfterFunc(ctx, func() { e.listener.Close() })()
	return e.listener.Accept()
}

// close closes the endpoint, so that pmcd does not wait for the agent.
func (e *endpoint) close() {
	if e.listener != nil {
		e.listener.Close()
	} else {
		e.pipe.Close()
	}
}

// listenUnix listens on a Unix socket. PCP's user owns the socket, because pmcd runs
// as root or as this user. An old socket at path is replaced, and the new one is not
// removed at the end, as with libpcp_pmda. It is an error if path is another kind of
// file.
func listenUnix(path string, log *slog.Logger) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		if err := safepath.Remove(path); err != nil {
			return nil, err
		}
		log.Warn("removed the old socket", "path", path)
	}
	l, err := safepath.Listen(path, 0o660)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	u, err := user.Lookup(pcpUser())
	if err != nil {
		log.Warn("cannot find the user that should own the socket", "error", err)
		return l, nil
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	// An error is not fatal: pmcd may run as the same user as the agent.
	if err := safepath.Give(path, uid, gid); err != nil {
		log.Debug("cannot set the owner of the socket", "error", err)
	}
	return l, nil
}

// pcpUser returns the user that PCP's programs run as (pmGetUsername(3)).
func pcpUser() string { return cmp.Or(os.Getenv("PCP_USER"), "pcp") }

// stdio combines the ends of two pipes. Both may be the same stream.
type stdio struct {
	io.Reader
	io.Writer
}

// Close closes the Writer and the Reader if they are io.Closers.
func (s stdio) Close() error {
	for _, v := range []any{s.Writer, s.Reader} {
		if c, ok := v.(io.Closer); ok {
			c.Close()
		}
	}
	return nil
}
