package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listeners are the sockets that clients connect to.
type Listeners struct {
	all    []listener
	unix   string   // path of the Unix socket, if there is one
	file   string   // the same if it was made here, and goes at the end
	report []string // lines of the table in the log
	failed []string // addresses that were asked for and cannot be had, and why
}

// A listener is a listening socket, which a [lobby] waits for: it is not in Go's
// poller.
type listener struct {
	fd   int
	addr net.Addr
}

// Listen opens a socket for each pair of an address and a port, and the Unix
// socket. An address is "" for any, "loopback", or numeric. Listening sockets
// that were given to this process are taken over: one for TCP is in place of
// all addresses and ports, one of the Unix domain in place of that path. A
// socket that cannot be had is in the report, or in Unbound if its address was
// given; if none can, that is an error. If
// a pmcd answers at one of those to open, none is opened or changed and the
// error is ErrRunning.
func Listen(addrs []string, ports []int, unix string, given ...*os.File) (*Listeners, error) {
	l := new(Listeners)
	var errs []error
	for _, f := range given {
		if err := l.adopt(f); err != nil {
			errs = append(errs, err)
		}
	}
	for _, ln := range l.all {
		switch ln.addr.(type) {
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

// listenUnix replaces a socket file that nobody listens at any more.
func (l *Listeners) listenUnix(path string) error {
	ln, err := bindUnix(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if conn, dialErr := net.DialTimeout("unix", path, time.Second); dialErr == nil {
			conn.Close()
			err = fmt.Errorf("%w: pmcd may already be running", err)
		} else if fi, statErr := os.Lstat(path); statErr == nil && fi.Mode().Type() == fs.ModeSocket {
			os.Remove(path)
			ln, err = bindUnix(path)
		}
	}
	l.add(ln, err, "unix", path, "")
	if err == nil {
		l.unix, l.file = path, path
	}
	return err
}

// bindUnix makes a socket that all may connect to: peers are known by their
// credentials. It has its mode from the umask and not from chmod(2) later, by
// path: this is root, the directory is the -U user's, and what is there by then
// may be a link to any file.
func bindUnix(path string) (ln net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A thread of its own, which ends with the goroutine, has a umask of its
		// own. Where that is forbidden it is everybody's for a moment.
		runtime.LockOSThread()
		syscall.Unshare(syscall.CLONE_FS)
		defer syscall.Umask(syscall.Umask(0o111))
		ln, err = net.Listen("unix", path)
	}()
	<-done
	return ln, err
}

func (l *Listeners) listenTCP(addr string, port int) (errs []error) {
	type end struct{ network, host, family, name string }
	var ends []end
	numeric := addr != "" && addr != "loopback"
	switch ip, err := netip.ParseAddr(addr); {
	case addr == "":
		ends = []end{{"tcp4", "0.0.0.0", "inet", "INADDR_ANY"}, {"tcp6", "::", "ipv6", "INADDR_ANY"}}
	case addr == "loopback":
		ends = []end{{"tcp4", "127.0.0.1", "inet", "INADDR_LOOPBACK"}, {"tcp6", "::1", "ipv6", "INADDR_LOOPBACK"}}
	case err == nil && ip.Is4():
		ends = []end{{"tcp4", addr, "inet", addr}}
	case err == nil:
		ends = []end{{"tcp6", addr, "ipv6", addr}}
	default:
		return []error{err}
	}
	for _, e := range ends {
		ln, err := bind(e.network, net.JoinHostPort(e.host, fmt.Sprint(port)), numeric)
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil && numeric {
			l.failed = append(l.failed, fmt.Sprintf("no client is accepted at address %s, port %d (-i): %v", addr, port, reason(err)))
			continue
		}
		l.add(ln, err, e.family, e.name, fmt.Sprint(port))
	}
	return errs
}

// reason is err without what package net says of the address.
func reason(err error) error {
	if op := new(net.OpError); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Unbound says of each address that was given to Listen, and that is not listened
// at, why.
func (l *Listeners) Unbound() []string { return slices.Clone(l.failed) }

// bind tries for a second: the pmcd before this one may be about to end. With
// absent the address need not be one of this host's yet.
func bind(network, addr string, absent bool) (net.Listener, error) {
	config := net.ListenConfig{Control: setOptions, KeepAlive: -1} // net would set its own for each connection
	if absent {
		config.Control = setAbsent
	}
	for try := 1; ; try++ {
		ln, err := config.Listen(context.Background(), network, addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || try == retries {
			return ln, err
		}
		<-time.After(retryTime)
	}
}

// setAbsent is setOptions for an address that an interface may get later. Where
// that cannot be said, a bind fails if the address is not there.
func setAbsent(network, addr string, c syscall.RawConn) error {
	cerr := c.Control(func(fd uintptr) {
		if network == "tcp4" {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
		} else {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
		}
	})
	return errors.Join(setOptions(network, addr, c), cerr)
}

// setOptions sets the options of a listening socket that connections have from
// it.
func setOptions(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = errors.Join(
			// As in C pmcd: to close is to reset, and leaves nothing behind.
			syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1),
			// C pmcd differs: that a host has gone it notices after two hours,
			// where the system says nothing else. Here it is two minutes.
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9),
		)
	})
	return errors.Join(err, cerr)
}

func (l *Listeners) add(ln net.Listener, err error, family, name, port string) {
	fd := -1
	if err == nil {
		fd, err = detach(ln)
	}
	if err != nil {
		l.report = append(l.report, fmt.Sprintf("  err   -1 %5s %-6s %s (%v)", port, family, name, err))
		return
	}
	l.all = append(l.all, listener{fd, ln.Addr()})
	if addr, ok := ln.Addr().(*net.TCPAddr); ok {
		port = fmt.Sprint(addr.Port) // 0 has become one
	}
	l.report = append(l.report, fmt.Sprintf("  ok  %4d %5s %-6s %s", fd, port, family, name))
}

// detach takes a socket out of Go's poller, and closes ln.
func detach(ln net.Listener) (fd int, err error) {
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err == nil {
		cerr := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(err, cerr)
	}
	if ln, ok := ln.(*net.UnixListener); ok && err == nil {
		ln.SetUnlinkOnClose(false)
		// Nobody has to send descriptors. Who reads them closes them, and to close
		// a stranger's socket can take as long as its SO_LINGER says. Before Linux
		// 6.16 there is no such option. C pmcd differs: it closes them.
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0)
	}
	ln.Close()
	return fd, err
}

// String is the table of request ports for the log.
func (l *Listeners) String() string {
	return "pmcd request port(s):\n  sts fd   port  family address\n  === ==== ===== ====== =======\n" +
		strings.Join(l.report, "\n")
}

// Addrs returns the addresses that clients can connect to.
func (l *Listeners) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(l.all))
	for i, ln := range l.all {
		addrs[i] = ln.addr
	}
	return addrs
}

// Close closes all. The Unix socket's file goes with it; it is an error if that
// is not possible.
func (l *Listeners) Close() error {
	open := l.all
	l.all = nil
	var err error
	if l.file != "" && len(open) > 0 {
		// First: the file of a closed socket is another pmcd's to replace.
		err = os.Remove(l.file)
	}
	for _, ln := range open {
		syscall.Close(ln.fd)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove %s", l.file)
	}
	return nil
}
