package conn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// inherit takes over a listening socket that this process was started with (socket
// activation), and closes f. The file of a Unix socket is the service manager's and
// stays.
func (l *Listeners) inherit(f *os.File) error {
	defer f.Close()
	ln, err := listening(f)
	family, name, port := "?", f.Name(), "?"
	if err == nil {
		switch addr := ln.Addr().(type) {
		case *net.TCPAddr:
			if raw, rerr := ln.(syscall.Conn).SyscallConn(); rerr == nil {
				setOptions("", "", raw) // as far as the system can
			}
			family, port = "ipv6", "" // add fills in the port
			if addr.IP.To4() != nil {
				family = "inet"
			}
			switch {
			case addr.IP.IsUnspecified():
				name = "INADDR_ANY"
			case addr.IP.IsLoopback():
				name = "INADDR_LOOPBACK"
			default:
				name = addr.IP.String()
			}
		case *net.UnixAddr:
			family, name, port = "unix", addr.Name, ""
			l.unix = addr.Name
		}
		name += " (inherited: " + f.Name() + ")"
	} else {
		l.unbound = append(l.unbound, fmt.Sprintf("no client is accepted at %v", err))
	}
	l.add(ln, err, family, name, port)
	return err
}

// listening returns f as a listener.
func listening(f *os.File) (net.Listener, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var accepts int // of a socket for datagrams net makes a listener, too
	cerr := raw.Control(func(fd uintptr) {
		accepts, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	})
	if err = errors.Join(err, cerr); err == nil && accepts == 0 {
		err = errors.New("not a listening socket; a socket unit needs ListenStream= and Accept=no")
	}
	if err != nil {
		return nil, fmt.Errorf("the inherited socket %q: %w", f.Name(), err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the inherited socket %q: %w", f.Name(), err)
	}
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
		return ln, nil
	}
	ln.Close()
	return nil, fmt.Errorf("the inherited socket %q: neither TCP nor of the Unix domain; remove it from the socket unit", f.Name())
}
