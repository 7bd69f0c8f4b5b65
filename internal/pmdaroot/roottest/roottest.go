// Package roottest is a pmdaroot for tests.
package roottest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A Container has the replies of pmdaroot for one.
type Container struct {
	PID          int
	Host, Cgroup string
}

// A Root is a pmdaroot that knows the containers that Set adds.
type Root struct {
	Socket string // path of the socket

	listener net.Listener
	wg       sync.WaitGroup

	mu         sync.Mutex // guards the following
	containers map[string]Container
	conns      []net.Conn
}

// Start starts a Root that ends with the test.
func Start(t testing.TB) *Root {
	t.Helper()
	dir, err := os.MkdirTemp("", "root") // short, because paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Listen(t, filepath.Join(dir, "root.socket"))
}

// Listen is Start with the path of the socket.
func Listen(t testing.TB, path string) *Root {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := &Root{Socket: path, listener: l, containers: make(map[string]Container)}
	r.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
			r.wg.Go(func() {
				defer conn.Close()
				for send(conn, 0x9000, 0, 7, ""); r.reply(conn); {
				}
			})
		}
	})
	t.Cleanup(r.Close)
	return r
}

// Close ends r.
func (r *Root) Close() {
	r.listener.Close()
	r.Disconnect()
	r.wg.Wait()
}

// Disconnect closes all connections.
func (r *Root) Disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		conn.Close()
	}
}

// Connections returns the number of connections that r has accepted.
func (r *Root) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// Set adds or replaces a container.
func (r *Root) Set(name string, c Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[name] = c
}

func send(conn net.Conn, typ, status, pid int, name string) {
	var b []byte
	for _, n := range []int{typ, 24 + len(name), status, 2, pid, len(name)} {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	conn.Write(append(b, name...))
}

// reply reads a request and replies to it. It returns false at the end of the
// connection.
func (r *Root) reply(conn net.Conn) bool {
	head := make([]byte, 24)
	if _, err := io.ReadFull(conn, head); err != nil {
		return false
	}
	name := make([]byte, binary.NativeEndian.Uint32(head[20:]))
	if _, err := io.ReadFull(conn, name); err != nil {
		return false
	}
	r.mu.Lock()
	c, ok := r.containers[string(name)]
	r.mu.Unlock()
	typ := int(binary.NativeEndian.Uint32(head)) + 1
	switch {
	case !ok:
		send(conn, typ, int(pdu.ErrnoNoContainer), 0, "")
	case typ == 0x9002:
		send(conn, typ, 0, c.PID, c.Host)
	case typ == 0x9004:
		send(conn, typ, 0, c.PID, "")
	default:
		send(conn, typ, 0, c.PID, c.Cgroup)
	}
	return true
}
