package session

import (
	"net/netip"
	"slices"

	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/internal/fairqueue"
)

// newKey returns the key of a new connection, by which it takes turns with others and
// shares memory with them. In its group it is a member together with the other
// connections of the same process, as far as the system tells. A connection from a relay
// is a group of its own.
func (s *Server) newKey(p conn.Peer) fairqueue.Key {
	n := s.accepted.Add(1)
	k := fairqueue.Key{Group: groupOf(p), Member: n}
	switch {
	case p.Unix:
		k.Member = uint64(p.PID)
	case s.isRelay(p.Addr):
		k.Group.ID = n
	}
	return k
}

// isRelay reports whether addr is that of a relay.
func (s *Server) isRelay(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("") // a Prefix contains no address with a zone
	return slices.ContainsFunc(s.cfg.Relays, func(r netip.Prefix) bool { return r.Contains(addr) })
}

// groupOf returns the group of a client, whose members share what pmcd has for them.
//
// It is the user at the Unix socket. At a port it is the host, as far as the address
// tells: the IPv4 address, or the first 64 bits of an IPv6 address, or all of a
// link-local one with its scope. All loopback addresses are one host.
func groupOf(p conn.Peer) fairqueue.Group {
	if p.Unix {
		return fairqueue.Group{ID: uint64(p.UID)}
	}
	addr := p.Addr.Unmap()
	switch {
	case addr.IsLoopback():
		addr = netip.IPv6Loopback()
	case addr.Is6() && !addr.IsLinkLocalUnicast():
		prefix, _ := addr.Prefix(64) // which drops the zone
		addr = prefix.Addr()
	}
	return fairqueue.Group{Addr: addr}
}
