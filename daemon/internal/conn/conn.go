// Package conn is the connections of clients: how pmcd accepts them, how their
// bytes arrive and leave, and how they end.
//
// An [Acceptor] accepts connections at its [Listeners]. For each of them a
// [Handler] returns a [Session], which reads and writes through a [Conn].
//
// An idle connection uses no goroutine and no buffer: one epoll(7) set watches all
// of them. A connection with a request gets a goroutine, and goes back to the set
// when its client has asked nothing for a while.
//
// Package conn knows nothing of PDUs, except that it recognizes a pmcd that
// already listens.
package conn

import (
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/quota"
)

// A Conn is the connection of one client.
//
// One goroutine at a time serves it. This goroutine calls Wait, Read,
// SetReadDeadline, Write and WriteFrom, and at the end Close. All goroutines may call the methods
// of Handle, and Exclusive, at any time, also after Close.
type Conn interface {
	Handle

	// Wait returns nil when there is input. It holds no buffer while it waits. It
	// returns ErrParked if the client has been silent for a while: then the
	// goroutine must not use the Conn and the Session any more, and Session.Serve is
	// called when there is input again. Any other error is the end of the
	// connection: that of Interrupt, ErrRights, or io.EOF if there will be no more
	// input for whatever reason. Wait ends the deadline of SetReadDeadline.
	Wait() error

	// Compact frees the memory that Wait has taken beyond the input. It is for a Session
	// that has to wait between Wait and Read.
	Compact()

	// Read reads what is there, and waits if there is nothing. After the client has
	// closed its side Read returns io.EOF, and Write still works.
	io.Reader

	// SetReadDeadline sets the time at which Read fails with os.ErrDeadlineExceeded.
	// The zero time is none. It costs nothing unless Read has to wait.
	SetReadDeadline(t time.Time)

	// Write writes all of b, or returns an error. It waits for a slow client, as long as
	// that takes some of b within StallTime, and the memory for what clients have not
	// read is within its limit (quota.Error).
	io.Writer

	// WriteFrom is Write for a reply that is made in pieces.
	WriteFrom(src Source) error

	// Close ends the connection. The client can still read what was written. If last
	// is not nil, it is written first and the client gets LingerTime to read it:
	// a connection that is closed with unread input is reset, and the reset may
	// overtake what was written. Close must be called once.
	Close(last []byte)

	// Exclusive reports whether this is the only client that keeps pmcd busy. Then a
	// call to an agent may block the thread, see transport.Call.
	Exclusive() bool
}

// A Handle is what all goroutines may do with a connection. It stays the same when the
// connection is made secure (see TLS).
type Handle interface {
	// Interrupt makes Wait and Read fail with err, now and from now on. It does not
	// end a Write. Only the first call has an effect.
	Interrupt(err error)

	// Abort makes Wait, Read and Write fail, as if the client had disconnected.
	Abort()

	// Peer returns the other end of the connection.
	Peer() Peer

	// FD returns the number of the file descriptor, for messages. It changes when the
	// connection is parked and when it enters blocking-read mode.
	FD() int
}

// A Handler serves the connections of an Acceptor.
type Handler interface {
	// Accept returns the Session of a new connection, and what is written to the
	// client first. If greeting is nil, nothing is written and the Session is served
	// at once. Accept is called by the acceptor, by one goroutine. It must not wait,
	// nor use c for more than Peer, FD, Interrupt and Abort.
	Accept(c Conn) (s Session, greeting []byte)

	// Busy reports whether a Session that has input will have to wait before it reads it.
	// Then Wait reads only little of it. Any goroutine may call Busy.
	Busy() bool
}

// A Session is what pmcd does for one client.
type Session interface {
	// First gets the first input of a client before Serve is called for the first
	// time. If First can handle all of it at once, it returns true and what is to be
	// written, which must not alias in. Otherwise Serve is called, and reads the input.
	// First must not wait, and not write. It need not be called.
	First(in []byte) (reply []byte, handled bool)

	// Disconnected ends the session of an idle connection when the client has
	// disconnected. It closes the Conn. Like First it must not wait: a goroutine for
	// each client that connects and disconnects would cost half as much again.
	Disconnected()

	// BeforeWait is called when Read or Write has to wait for the client, by the
	// goroutine that does. It must not wait.
	BeforeWait()

	// BeforeWork is called by the goroutine that serves the connection before Wait or Read
	// decrypts what has arrived, and before Write or WriteFrom goes on after a wait for the
	// client. It may wait. BeforeWait is called after it before the next wait.
	BeforeWork()

	// Unread returns the Account of the client for replies that it does not read. It is
	// called during a Write.
	Unread() *quota.Account

	// Serve serves the client until Wait fails. It is called on a goroutine of its
	// own. It closes the Conn unless the error is ErrParked. It may return before
	// that if another goroutine goes on.
	Serve()
}

// A Peer is the other end of a connection, as far as the system tells.
type Peer struct {
	Addr netip.Addr // with its zone; invalid if the socket is a Unix socket

	// Of a Unix socket.
	Unix bool
	Path string // the address at which it was accepted
	PID  int32  // of the client when it connected, as are UID and GID (SO_PEERCRED)
	UID  uint32
	GID  uint32
}

// String returns the address, as log lines have it.
func (p Peer) String() string {
	if p.Unix {
		return p.Path
	}
	return p.Addr.String()
}

var (
	// ErrParked is returned by Conn.Wait when the goroutine is to leave the
	// connection to the acceptor.
	ErrParked = errors.New("the connection is idle")

	// ErrRights is the error for a client that sends descriptors over a Unix socket.
	// PCP has no use for them, and to close a stranger's descriptor can take long.
	ErrRights = errors.New("sends file descriptors (SCM_RIGHTS)")
)

const (
	// LingerTime is how long a client may take to disconnect after its last bytes.
	LingerTime = 2 * time.Second

	// MaxLingering is how many clients may take this time at once. Connections that
	// end must not take the descriptors that others need.
	MaxLingering = 256

	// DefaultIdleTime is the default of Config.IdleTime. To be parked and watched
	// again costs a request about as much as the request itself. So a client that
	// asks every ten seconds is never parked, and a logger with an interval of a
	// minute is.
	DefaultIdleTime = 15 * time.Second
)
