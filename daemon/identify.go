package daemon

import (
	"math"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/access"
)

// identify fills in who the peer at fd is, as far as the socket says.
func (s *session) identify(fd int, from unix.Sockaddr) error {
	var ip netip.Addr
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		ip = netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		ip = netip.AddrFrom16(from.Addr).Unmap()
		if from.ZoneId != 0 && ip.Is6() {
			ip = ip.WithZone(zone(fd, from.ZoneId))
		}
	default:
		cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			s.line.guard(math.MaxUint32) // for the close
			return os.NewSyscallError("getsockopt", err)
		}
		if err = s.line.guard(cred.Uid); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		s.addr = s.d.cfg.Listeners.unix
		s.creds = cred
		s.peer = access.Peer{Family: access.Unix, HasUser: true, UID: cred.Uid, GID: cred.Gid}
		return nil
	}
	s.addr = ip.String()
	s.peer = access.Peer{Family: access.Inet, Addr: ip}
	if ip.Is6() {
		s.peer.Family = access.IPv6
	}
	return nil
}

// zone is the name of the interface that a link-local address belongs to. The
// socket fd is asked: package net would list all interfaces, and there may be
// thousands.
func zone(fd int, id uint32) string {
	if i, err := unix.NewIfreq(""); err == nil {
		i.SetUint32(id)
		if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, i) == nil {
			return i.Name()
		}
	}
	return strconv.Itoa(int(id))
}
