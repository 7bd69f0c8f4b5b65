// Package pmdaroot is a client of PCP's root agent (pmdaroot(1)). It requests,
// for a container, the id of its first process, its host name and its control
// group. Pmdaroot knows containers of Docker, Podman and LXC, and replies to root
// and PCP's user only. Pmdaroot can also start agents; this package does not
// offer that, because it would give root's rights to every user of a Client.
//
// # Protocol
//
// pcp/pmdaroot.h defines the protocol, on a stream socket of the Unix domain.
// Numbers have 4 bytes, in the byte order of the host. A message starts with its
// type, its length in bytes, a status and the version of the protocol, which is
// 2. Pmdaroot sends the first message, of type 0x9000, with two numbers: its
// capabilities and 0. Each request and its reply, which has the next type, have a
// process id, the length of a name, and the name.
package pmdaroot

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// Types of messages.
const (
	info        = 0x9000
	hostNameReq = 0x9001
	processReq  = 0x9003
	cgroupReq   = 0x9005
)

const (
	version   = 2
	headerLen = 16
	maxName   = 4096 // in bytes, including a NUL that is not sent (PATH_MAX, limits.h)
	timeout   = 2 * time.Second
)

// Default returns the path of the socket that PCP's programs use,
// $PCP_VAR_DIR/pmcd/root.socket.
func Default() string {
	dir, _ := pcpconf.Dir("PCP_VAR_DIR")
	return filepath.Join(dir, "pmcd", "root.socket")
}

// A Client sends requests to a pmdaroot. It connects at the first request, and
// again after a restart of pmdaroot. One goroutine at a time may use it.
type Client struct {
	Path string // of the socket; "" is the Default
	conn net.Conn
}

// ErrMessage is the error for a message that breaks the protocol.
var ErrMessage = errors.New("not a message of pmdaroot")

// ProcessID returns the process id, on the host, of the first process of a
// container.
//
// Here and below, container is a name or an id that the container engine knows,
// or the beginning of an id. The error is PM_ERR_NOCONTAINER if the container is
// unknown or does not run, and PM_ERR_NOTCONN if pmdaroot does not reply within
// 2 seconds.
func (c *Client) ProcessID(container string) (int, error) {
	m, err := c.request(processReq, container)
	if err == nil && m.pid <= 0 {
		err = pdu.ErrnoNoContainer
	}
	return int(m.pid), err
}

// HostName returns the result of gethostname(2) in a container.
func (c *Client) HostName(container string) (string, error) {
	m, err := c.request(hostNameReq, container)
	return m.name, err
}

// Cgroup returns the control group of a container: a path relative to the root of
// a hierarchy, or to machine.slice there, without slashes at its ends.
func (c *Client) Cgroup(container string) (string, error) {
	m, err := c.request(cgroupReq, container)
	if err == nil && strings.Trim(m.name, "/") == "" {
		err = pdu.ErrnoNoContainer
	}
	return strings.Trim(m.name, "/"), err
}

// A message is a request or a reply.
type message struct {
	typ    int32
	status int32
	pid    int32
	name   string
}

func (c *Client) request(typ int32, container string) (message, error) {
	if container == "" || len(container) >= maxName {
		return message{}, pdu.ErrnoNoContainer
	}
	q, deadline := message{typ: typ, name: container}, time.Now().Add(timeout)
	wasConnected := c.conn != nil
	m, err := c.attempt(q, deadline)
	if err != nil && wasConnected && time.Now().Before(deadline) {
		m, err = c.attempt(q, deadline)
	}
	switch {
	case err != nil:
		return message{}, fmt.Errorf("%w: %w", pdu.ErrnoNotConn, err)
	case m.status != 0:
		return message{}, pdu.Errno(m.status)
	}
	return m, nil
}

// attempt connects, if necessary, and sends a request. After an error there is no
// connection.
func (c *Client) attempt(q message, deadline time.Time) (m message, err error) {
	if c.conn == nil {
		m, err = c.connect(deadline)
	}
	if err == nil && m.status == 0 {
		m, err = exchange(c.conn, q, deadline)
	}
	if err != nil {
		c.Close()
	}
	return m, err
}

// connect returns the first message of pmdaroot. If its status is not 0, pmdaroot
// has refused the connection, and c is not connected.
func (c *Client) connect(deadline time.Time) (greeting message, err error) {
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("unix", cmp.Or(c.Path, Default()))
	if err != nil {
		return message{}, err
	}
	if err = checkPeer(conn.(*net.UnixConn)); err == nil {
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		greeting, err = read(conn)
	}
	if err == nil && greeting.typ != info {
		err = fmt.Errorf("%w: type %#x, not %#x", ErrMessage, greeting.typ, info)
	}
	if err != nil || greeting.status != 0 {
		conn.Close()
		return greeting, err
	}
	c.conn = conn
	return greeting, nil
}

// checkPeer returns an error unless the process that listens at the socket runs
// as root or as the user of this process: the directory of the socket may belong
// to PCP's user.
func checkPeer(conn *net.UnixConn) error {
	peer, err := Peer(conn)
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: the listening process runs as user %d, not as root", conn.RemoteAddr(), peer.Uid)
	}
	return nil
}

// Peer returns the process at the other end of a connection.
func Peer(conn *net.UnixConn) (peer syscall.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer, err
	}
	e := raw.Control(func(fd uintptr) {
		var cred *syscall.Ucred
		if cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			peer = *cred
		}
	})
	return peer, cmp.Or(e, err)
}

// Close closes the connection. The next request connects again.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// exchange sends a request and returns the reply.
func exchange(conn net.Conn, q message, deadline time.Time) (message, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return message{}, err
	}
	if _, err := conn.Write(q.append(nil)); err != nil {
		return message{}, err
	}
	a, err := read(conn)
	if err == nil && a.typ != q.typ+1 {
		err = fmt.Errorf("%w: type %#x, not %#x", ErrMessage, a.typ, q.typ+1)
	}
	return a, err
}

func (m message) append(b []byte) []byte {
	for _, n := range []int32{m.typ, int32(headerLen + 8 + len(m.name)), m.status, version, m.pid, int32(len(m.name))} {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	return append(b, m.name...)
}

// read reads a message: two numbers follow the header, and then a name, except in
// a message of type info.
func read(r io.Reader) (message, error) {
	var b [headerLen + 8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return message{}, err
	}
	var n [6]int32
	for i := range n {
		n[i] = int32(binary.NativeEndian.Uint32(b[4*i:]))
	}
	m := message{typ: n[0], status: n[2], pid: n[4]}
	length, namelen := int64(n[1]), int64(n[5])
	if m.typ == info {
		namelen = 0
	}
	if n[3] < 1 || n[3] > version {
		return message{}, fmt.Errorf("%w: version %d", ErrMessage, n[3])
	}
	if namelen < 0 || namelen >= maxName || length != int64(len(b))+namelen {
		return message{}, fmt.Errorf("%w: %d bytes, %d in the name", ErrMessage, length, namelen)
	}
	name := make([]byte, namelen)
	if _, err := io.ReadFull(r, name); err != nil {
		return message{}, err
	}
	if bytes.IndexByte(name, 0) >= 0 {
		return message{}, fmt.Errorf("%w: a NUL in the name %q", ErrMessage, name)
	}
	m.name = string(name)
	return m, nil
}
