package conn

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/safepath"
)

// listenConfig returns how to listen at a TCP address. With absent this host need
// not have the address yet: an interface may get it later.
func listenConfig(absent bool) net.ListenConfig {
	config := net.ListenConfig{Control: setOptions, KeepAlive: -1} // package net would set its own for each connection
	if absent {
		config.Control = setAbsent
	}
	return config
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

// setOptions sets the options of a listening socket. Connections inherit them.
func setOptions(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = errors.Join(
			// As in C pmcd: to close is to reset, and leaves nothing behind.
			syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1),
			// C pmcd differs: it notices a host that has gone after two hours, if the
			// system has no other default. Here it is two minutes.
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9),
		)
	})
	return errors.Join(err, cerr)
}

// refuseRights turns off the sending of descriptors to ln. A read that meets
// descriptors closes them, and to close a stranger's socket can take as long as its
// SO_LINGER. Before Linux 6.16 there is no such option.
//
// C pmcd differs: it closes them.
func refuseRights(ln *net.UnixListener) {
	if raw, err := ln.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) })
	}
}

// errDir is the error for a socket in a directory that another user can replace. pmcd may be root,
// and clients would not know whose socket it is.
var errDir = errors.New("users other than root can replace its directory")

// bindUnix makes a socket that all users may connect to: clients are known by their
// credentials.
func bindUnix(path string) (net.Listener, error) {
	if d, err := safepath.Open(filepath.Dir(path)); err == nil {
		d.Close()
		if !d.Fixed {
			return nil, errDir
		}
	}
	ln, err := safepath.Listen(path, 0o666)
	if err != nil {
		return nil, err
	}
	return ln, nil
}

// setCredentials fills in the user of a Unix socket.
func (p *Peer) setCredentials(fd int) error {
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	p.PID, p.UID, p.GID = cred.Pid, cred.Uid, cred.Gid
	return nil
}

// zoneName returns the name of the interface of a link-local address. It asks the
// socket fd: package net would list all interfaces, and there may be thousands.
func zoneName(fd int, id uint32) string {
	if i, err := unix.NewIfreq(""); err == nil {
		i.SetUint32(id)
		if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, i) == nil {
			return i.Name()
		}
	}
	return strconv.Itoa(int(id))
}

// unsentOf returns how many bytes the system keeps until the peer of a socket takes
// them. A Unix socket counts what the system adds to them, too.
func unsentOf(c syscall.RawConn) (n int) {
	c.Control(func(fd uintptr) { n, _ = ioctlInt(fd, unix.TIOCOUTQ) })
	return n
}

// ioctlInt is ioctl(2) with a request that gives an int of C, which has 32 bits.
// unix.IoctlGetInt passes an int of Go: on a big-endian processor with 64 bits, the kernel
// writes to its upper half.
func ioctlInt(fd uintptr, request uint) (int, error) {
	n, err := unix.IoctlGetUint32(int(fd), request)
	return int(int32(n)), err
}
