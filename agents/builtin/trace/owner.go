package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
)

// An owner is the peer of a connection: a user of this host, or another host. All connections
// of an owner together are at most as many as are left for others, and so is the memory for
// its tags. So the first owner gets at most half, the second one half of the rest, and so on.
type owner struct {
	local bool
	uid   uint32     // if local is set
	addr  netip.Addr // else; of IPv6 the network of 64 bits
}

// unknownUser is the owner for connections from this host whose user is not known: the
// client has closed its socket already, or the kernel does not tell.
var unknownUser = owner{local: true, uid: 1<<32 - 1}

func (o owner) String() string {
	switch {
	case o == unknownUser:
		return "users that are not known"
	case o.local:
		return fmt.Sprintf("user %d", o.uid)
	case o.addr.Is6():
		return fmt.Sprintf("network %v/64", o.addr)
	}
	return fmt.Sprintf("host %v", o.addr)
}

// ownerOf returns the owner of a connection with these ends.
func ownerOf(peer, local netip.AddrPort) owner {
	if ownHost(peer.Addr(), local.Addr()) {
		if uid, ok := socketUser(peer, local); ok {
			return owner{local: true, uid: uid}
		}
		return unknownUser
	}
	addr := peer.Addr().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	return owner{addr: addr}
}

// Of sock_diag(7): types, lengths, and offsets after the header of a message.
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20

	diagRequestLen = syscall.SizeofNlMsghdr + 8 + 48
	diagReplyLen   = syscall.SizeofNlMsghdr + 72

	diagID      = 8 // the ports and addresses in the request
	diagReplyID = 4 // and in the reply
	diagUID     = 64
	diagInode   = 68
)

// socketUser returns the user of the TCP socket that is bound to src and connected to dst,
// both of this host. ok is false if there is none: a socket that its process has closed
// has no user.
func socketUser(src, dst netip.AddrPort) (uid uint32, ok bool) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, netlinkSockDiag)
	if err != nil {
		return 0, false
	}
	defer syscall.Close(fd)
	// The kernel replies before Sendto returns.
	q := socketQuery(src, dst)
	if err := syscall.Sendto(fd, q, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, false
	}
	b := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, false
	}
	return parseSocket(b[:n], src.Port(), dst.Port())
}

// socketQuery returns the request for one socket.
func socketQuery(src, dst netip.AddrPort) []byte {
	b := make([]byte, diagRequestLen)
	native := binary.NativeEndian
	native.PutUint32(b, diagRequestLen)
	native.PutUint16(b[4:], sockDiagByFamily)
	native.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	body := b[syscall.SizeofNlMsghdr:]
	body[0] = syscall.AF_INET6
	if src.Addr().Is4() {
		body[0] = syscall.AF_INET
	}
	body[1] = syscall.IPPROTO_TCP
	native.PutUint32(body[4:], 1<<32-1) // in any state
	id := body[diagID:]
	binary.BigEndian.PutUint16(id, src.Port())
	binary.BigEndian.PutUint16(id[2:], dst.Port())
	copy(id[4:], src.Addr().AsSlice())
	copy(id[20:], dst.Addr().AsSlice())
	native.PutUint64(id[40:], 1<<64-1) // no cookie
	return b
}

// parseSocket returns the user of a socket with these ports in a reply. If there is no such
// socket, the reply is an error, or about one that listens at the port.
func parseSocket(b []byte, src, dst uint16) (uid uint32, ok bool) {
	native := binary.NativeEndian
	if len(b) < diagReplyLen || native.Uint16(b[4:]) != sockDiagByFamily {
		return 0, false
	}
	body := b[syscall.SizeofNlMsghdr:]
	id := body[diagReplyID:]
	if binary.BigEndian.Uint16(id) != src || binary.BigEndian.Uint16(id[2:]) != dst || native.Uint32(body[diagInode:]) == 0 {
		return 0, false
	}
	return native.Uint32(body[diagUID:]), true
}
