package session

import (
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/conn"
)

// An identity identifies a client. What is not atomic does not change after the
// connection was accepted.
type identity struct {
	num   int32       // what agents know the client by; lowest free
	seq   uint32      // clients before it
	peer  access.Peer // for access rules
	addr  string      // of the peer, for messages
	since time.Time

	version atomic.Int32           // of the protocol, as the client has stated it; 0 before that
	whoami  atomic.Pointer[string] // as the client has stored it; nil before that
}

// accessPeer returns p as the access rules know it.
func accessPeer(p conn.Peer) access.Peer {
	switch {
	case p.Unix:
		return access.Peer{Family: access.Unix, HasUser: true, UID: p.UID, GID: p.GID}
	case p.Addr.Is6():
		return access.Peer{Family: access.IPv6, Addr: p.Addr}
	}
	return access.Peer{Family: access.Inet, Addr: p.Addr}
}
