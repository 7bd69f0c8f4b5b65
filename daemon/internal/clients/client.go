// Package clients has what all goroutines may know of the clients: who they are, what they
// may do, and what agents know of them.
package clients

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/pdu"
)

// A Client is one connected client. The fields up to Key do not change after List.Add. Only the
// goroutine of the session changes Container and Asked.
type Client struct {
	Num   int32  // what agents know the client by; the lowest that was free
	Seq   uint32 // clients before it
	Conn  conn.Handle
	Peer  access.Peer // for access rules
	Addr  string      // of the peer, for messages
	Since time.Time
	Key   fairqueue.Key // by which it is in fair queues, and shares limits

	Version   atomic.Int32 // of the protocol, as the client has stated it; 0 before that
	User      atomic.Pointer[User]
	Notices   atomic.Uint32 // state changes that the client has not been notified of
	Container Container
	Grant     access.Conn
	NeedsCert atomic.Bool // the client needs a certificate, and has shown none

	Asked domainSet // domains of agents that may know of the client

	refused atomic.Int32           // the pdu.Errno with which the client is refused, or 0
	whoami  atomic.Pointer[string] // as the client has stored it; nil before that
	known   knownAttrs
}

// A User is the user that a client has logged in as.
type User struct {
	Name     string
	Known    bool // by the operating system, with
	UID, GID uint32
}

// New returns the client at the other end of c, which is in no List yet.
func New(c conn.Handle, key fairqueue.Key) *Client {
	p := c.Peer()
	return &Client{Conn: c, Key: key, Since: time.Now(), Addr: p.String(), Peer: accessPeer(p)}
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

// Account returns the peer with the user that the client has logged in as, if it has, or of
// the process at the other end of a Unix socket.
func (c *Client) Account() access.Peer {
	p := c.Peer
	if u := c.User.Load(); u != nil {
		p.HasUser, p.UID, p.GID = u.Known, u.UID, u.GID
	}
	return p
}

// Origin returns what keys of limited log lines have, so that the lines about one host, or one
// user at the Unix socket, do not hide those about others.
func (c *Client) Origin() string {
	if c.Key.Group.Addr.IsValid() {
		return c.Key.Group.Addr.String()
	}
	return fmt.Sprint("uid ", c.Peer.UID)
}

// Denied returns the operations that the client may not do.
func (c *Client) Denied() access.Op {
	if c.NeedsCert.Load() {
		return access.All
	}
	return c.Grant.Denied()
}

// ErrRefused ends the session of a client that was refused.
var ErrRefused = errors.New("refused")

// Refuse notes that the client may not be connected any more, and why, and disconnects it, as
// soon as it has the answer to a request in progress.
func (c *Client) Refuse(code pdu.Errno) {
	c.refused.Store(int32(code))
	c.Conn.Interrupt(ErrRefused)
}

// Refusal returns why the client is refused, or 0.
func (c *Client) Refusal() pdu.Errno { return pdu.Errno(c.refused.Load()) }
