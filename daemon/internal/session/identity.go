package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/fairqueue"
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
	key   fairqueue.Key // clients with this key share turns and memory

	version atomic.Int32           // of the protocol, as the client has stated it; 0 before that
	whoami  atomic.Pointer[string] // as the client has stored it; nil before that
	user    atomic.Pointer[user]   // that the client has logged in as; nil if it has not
}

// account returns the peer with the user that the client has logged in as, if it has, or of
// the process at the other end of a Unix socket.
func (i *identity) account() access.Peer {
	p := i.peer
	if u := i.user.Load(); u != nil {
		p.HasUser, p.UID, p.GID = u.known, u.uid, u.gid
	}
	return p
}

// origin returns what keys of limited log lines have, so that the lines about one host, or one
// user at the Unix socket, do not hide those about others.
func (i *identity) origin() string {
	if i.key.Group.Addr.IsValid() {
		return i.key.Group.Addr.String()
	}
	return fmt.Sprint("uid ", i.peer.UID)
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
