package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/safepath"
)

// Listeners are the sockets that clients connect to.
type Listeners struct {
	all       []*listener
	unix      string // path of the Unix socket, if there is one
	file      string // the same if Listen has made it: Close removes it
	rows      []row  // of the table in the log
	inherited []net.Addr
	unbound   []string // sockets that were requested and cannot be opened, and why
	numeric   []string // addresses that are listened at, which no interface need have
}

// A listener is a listening socket.
type listener struct {
	net.Listener
	// fd is the descriptor if the acceptor has taken the socket out of Go's poller:
	// then the Listener is closed, but for its address. Otherwise it is -1.
	fd int
}

// A row is a line of the table of request ports.
type row struct {
	ln                 *listener // nil if there is no socket
	family, name, port string
}

// Listen opens a socket for each pair of an address and a port, and the Unix
// socket. An address is "" for any, "loopback", or numeric. Inherited listening
// sockets (socket activation) are taken over: one for TCP replaces all addresses
// and ports, one of the Unix domain replaces the path. A socket that cannot be
// opened is in Unbound, and in the table of String unless it has a numeric address; if
// there is none, that is an error. If a pmcd answers at one of the addresses, none is
// opened or changed and the error is ErrRunning.
func Listen(addrs []string, ports []int, unix string, inherited ...*os.File) (*Listeners, error) {
	l := new(Listeners)
	var errs []error
	for _, f := range inherited {
		if err := l.inherit(f); err != nil {
			errs = append(errs, err)
		}
	}
	l.inherited = l.Addrs()
	for _, addr := range l.inherited {
		switch addr.(type) {
		case *net.TCPAddr:
			ports = nil
		case *net.UnixAddr:
			unix = ""
		}
	}
	if len(addrs) == 0 {
		addrs = []string{""}
	}
	if err := checkRunning(addrs, ports, unix); err != nil {
		l.Close()
		return nil, err
	}
	if unix != "" {
		if err := l.listenUnix(unix); err != nil {
			errs = append(errs, err)
		}
	}
	for _, port := range ports {
		for _, addr := range addrs {
			errs = append(errs, l.listenTCP(addr, port)...)
		}
	}
	if len(l.all) == 0 {
		return nil, fmt.Errorf("can't open any request ports, exiting: %w", errors.Join(errs...))
	}
	return l, nil
}

// listenUnix listens at path. It replaces the file of a socket that no process
// listens at any more.
func (l *Listeners) listenUnix(path string) error {
	ln, err := bindUnix(path)
	hint := "" // what an admin can do, if that is special
	if errors.Is(err, syscall.EADDRINUSE) {
		if conn, dialErr := net.DialTimeout("unix", path, time.Second); dialErr == nil {
			conn.Close()
			err = fmt.Errorf("%w: pmcd may already be running", err)
			hint = "a process that does not greet as pmcd listens there: end it (ss -lxp) and restart pmcd"
		} else if fi, statErr := os.Lstat(path); statErr == nil && fi.Mode().Type() == fs.ModeSocket {
			safepath.Remove(path)
			ln, err = bindUnix(path)
		} else {
			hint = "the file at this path is not a socket: remove the file or give another path (-s), and restart pmcd"
		}
	}
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) {
		hint = fmt.Sprintf("there is no directory %s: make it (mkdir -p %s), give it to the user that pmcd runs as, and restart pmcd", dir, dir)
	}
	l.add(ln, err, "unix", path, "")
	if err == nil {
		l.unix, l.file = path, path
	} else {
		l.unbound = append(l.unbound, fmt.Sprintf("no client is accepted at the Unix domain socket %s: %v; %s", path, reason(err), cmp.Or(hint, restartHint(err))))
	}
	return err
}

// bind tries for a second: the pmcd before this one may be about to end. With
// absent the address need not be one of this host's yet.
func bind(network, addr string, absent bool) (net.Listener, error) {
	config := listenConfig(absent)
	for try := 1; ; try++ {
		ln, err := config.Listen(context.Background(), network, addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || try == retries {
			return ln, err
		}
		<-time.After(retryTime)
	}
}

func (l *Listeners) add(ln net.Listener, err error, family, name, port string) {
	if err != nil {
		l.rows = append(l.rows, row{nil, family, fmt.Sprintf("%s (%v)", name, err), port})
		return
	}
	if ln, ok := ln.(*net.UnixListener); ok {
		ln.SetUnlinkOnClose(false)
		refuseRights(ln)
	}
	if addr, ok := ln.Addr().(*net.TCPAddr); ok {
		port = fmt.Sprint(addr.Port) // 0 has become one
	}
	sock := &listener{ln, -1}
	l.all = append(l.all, sock)
	l.rows = append(l.rows, row{sock, family, name, port})
}

// number returns the number of the descriptor.
func (l *listener) number() int {
	if l.fd >= 0 {
		return l.fd
	}
	return fdOf(l.Listener)
}

// fdOf returns the number of the descriptor of v, or -1 if it has none.
func fdOf(v any) (n int) {
	n = -1
	if c, ok := v.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { n = int(fd) })
		}
	}
	return n
}

// String returns the table of request ports for the log.
func (l *Listeners) String() string {
	var b strings.Builder
	b.WriteString("pmcd request port(s):\n  sts fd   port  family address\n  === ==== ===== ====== =======")
	for _, r := range l.rows {
		status, fd := "err", -1
		if r.ln != nil {
			status, fd = "ok", r.ln.number()
		}
		fmt.Fprintf(&b, "\n  %-3s %4d %5s %-6s %s", status, fd, r.port, r.family, r.name)
	}
	return b.String()
}

// Addrs returns the addresses that clients can connect to.
func (l *Listeners) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(l.all))
	for i, ln := range l.all {
		addrs[i] = ln.Addr()
	}
	return addrs
}

// Inherited returns the addresses of the sockets that were inherited.
func (l *Listeners) Inherited() []net.Addr { return l.inherited }

// UnixPath returns the address of the Unix socket, or "" if there is none.
func (l *Listeners) UnixPath() string { return l.unix }

// SetBacklog makes n the number of clients that may wait at each socket until
// they are accepted (PMCD_MAXPENDING). Without, it is as many as the system
// allows (net.core.somaxconn).
func (l *Listeners) SetBacklog(n int) error {
	var errs []error
	// A second listen(2) changes nothing else.
	l.Control(func(_ net.Addr, fd uintptr) { errs = append(errs, syscall.Listen(int(fd), n)) })
	return errors.Join(errs...)
}

// Control calls f for each socket.
func (l *Listeners) Control(f func(addr net.Addr, fd uintptr)) {
	for _, ln := range l.all {
		if n := ln.number(); n >= 0 {
			f(ln.Addr(), uintptr(n))
		}
	}
}

// Close closes all sockets, and removes the file of the Unix domain socket. If that is not
// possible, the error is an *fs.PathError.
func (l *Listeners) Close() error {
	open := l.all
	l.all = nil
	var err error
	if l.file != "" && len(open) > 0 {
		// First: the file of a closed socket is another pmcd's to replace. Only root can
		// change where the path leads (bindUnix), so this needs no descriptor.
		err = os.Remove(l.file)
	}
	for _, ln := range open {
		if ln.fd >= 0 {
			syscall.Close(ln.fd)
		} else {
			ln.Listener.Close()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
