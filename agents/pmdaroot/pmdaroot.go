// Package pmdaroot asks the root agent of PCP (pmdaroot(1)) about containers:
// which process is the first of one, what the host is called there, and in which
// control group it is. Pmdaroot knows containers of Docker, Podman and LXC, and
// answers root and PCP's user only. Agents can be started through it, too, which
// is not in here: whoever has a connection to it has root's rights.
//
// # Protocol
//
// It is that of pcp/pmdaroot.h, on a stream socket of the Unix domain. Numbers
// are in the byte order of the host, 4 bytes each. A message starts with its
// type, its length in bytes, a status and the version of the protocol, which is
// 2. Pmdaroot speaks first: a message of type 0x9000 with two numbers, what it
// can do and 0. A question, and its answer, which has the next type, have the
// number of a process and the length of a name, and then the name.
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
	maxName   = 4096 // in bytes, with a NUL that is not sent (PATH_MAX, limits.h)
	timeout   = 2 * time.Second
)

// Default is the socket that PCP's programs use, $PCP_VAR_DIR/pmcd/root.socket.
func Default() string {
	return filepath.Join(cmp.Or(os.Getenv("PCP_VAR_DIR"), "/var/lib/pcp"), "pmcd", "root.socket")
}

// A Client asks a pmdaroot. It connects when it is first asked, and again when
// pmdaroot was started again. It is for one goroutine at a time.
type Client struct {
	Path string // of the socket; "" is the Default
	conn net.Conn
}

// ErrMessage is an answer that is none of the protocol.
var ErrMessage = errors.New("not a message of pmdaroot")

// ProcessID returns the first process of a container, by its number on the host.
//
// Here and below the name is one that the container engine knows, or an id of
// its, or the beginning of that. An unknown one, and one that does not run, is
// PM_ERR_NOCONTAINER; without a pmdaroot that answers it is PM_ERR_NOTCONN. An
// answer is waited for 2 seconds.
func (c *Client) ProcessID(container string) (int, error) {
	m, err := c.request(processReq, container)
	if err == nil && m.pid <= 0 {
		err = pdu.ErrnoNoContainer
	}
	return int(m.pid), err
}

// HostName returns what gethostname(2) says in a container.
func (c *Client) HostName(container string) (string, error) {
	m, err := c.request(hostNameReq, container)
	return m.name, err
}

// Cgroup returns the control group of a container: a path below the hierarchies,
// or below machine.slice there, without a slash at its beginning.
func (c *Client) Cgroup(container string) (string, error) {
	m, err := c.request(cgroupReq, container)
	if err == nil && strings.Trim(m.name, "/") == "" {
		err = pdu.ErrnoNoContainer
	}
	return strings.Trim(m.name, "/"), err
}

// A message is a question or an answer.
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

// attempt asks a question. After an error there is no connection.
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

// connect returns what pmdaroot says first. There is a connection if that has a
// status of 0.
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

// checkPeer is an error if others than root, and who asks, listen at the socket:
// its directory may belong to PCP's user.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: it is user %d who listens, and not root", conn.RemoteAddr(), peer.Uid)
	}
	return nil
}

// Close closes the connection, which the next question makes again.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// exchange asks a question.
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

// read reads a message: all have two numbers behind the header, and info has
// nothing else.
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
