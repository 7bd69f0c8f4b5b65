package daemon

import (
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// Clients that come and go in all ways, some with descriptors, leave nothing open.
func TestStormOfClients(t *testing.T) {
	r := newRig(t, withRights(t), nil)
	r.settled()
	r.sockets.limit.Store(50)
	other := r.dial()
	words, err := pdu.Append(nil, 0, hello)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(conn net.Conn, b []byte, flags int) {
		if raw, err := conn.(*net.UnixConn).SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.Sendmsg(int(fd), b, unix.UnixRights(0), nil, flags) })
		}
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for n := range 50 {
				conn, err := net.Dial("unix", r.unix)
				if err != nil {
					t.Error(err)
					return
				}
				switch (i + n) % 6 {
				case 1:
					conn.Write(words)
				case 2:
					conn.Write(words[:7])
				case 3:
					conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
				case 4:
					pass(conn, words, 0)
				case 5:
					conn.Write(words)
					pass(conn, words[:1], unix.MSG_OOB)
				}
				if n%3 == 0 {
					conn.SetReadDeadline(time.Now().Add(20 * time.Second))
					conn.Read(make([]byte, 20))
				}
				conn.Close()
			}
		})
	}
	for range 100 {
		other.ask()
	}
	wg.Wait()
	eventually(t, "all have gone", func() bool { return r.clients.len() == 1 && r.sockets.open.Load() == 1 })
	other.ask()
}

// When all closes that may block do so, clients that have left no descriptors are
// closed, and others can come in their places. The ones that have see the end of
// their connection.
func TestBlockedCloses(t *testing.T) {
	r := newRig(t, withRights(t), nil)
	r.settled()
	other := r.dialTo("unix", r.unix, 0)
	other.ask()
	blocked := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(blocked) })
	defer unblock()
	for uid := range uint32(maxCloses) {
		r.sockets.held.close(uid, func() { <-blocked })
	}
	request, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: []string{"u.one"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(c *client){
		"at once": func(c *client) {},
		"in the middle of a request": func(c *client) {
			c.ask()
			c.sendBytes(request[:13])
		},
		"with requests that are not read": func(c *client) {
			c.ask()
			c.sendBytes(word(0x80000000, 0x7004, 0)) // the last that is read
			for range 100 {
				if raw, err := c.conn.(syscall.Conn).SyscallConn(); err == nil {
					raw.Control(func(fd uintptr) { unix.Sendto(int(fd), request, unix.MSG_NOSIGNAL, nil) })
				}
			}
		},
	} {
		for range 20 {
			c := r.dialTo("unix", r.unix, 0)
			leave(c)
			c.conn.Close()
		}
		eventually(t, name+": all are closed", func() bool { return r.sockets.open.Load() == 1 })
	}

	c := r.dialTo("unix", r.unix, 0)
	c.ask()
	raw, err := c.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), request, unix.UnixRights(0), nil, 0) })
	if err != nil {
		t.Fatal(err)
	}
	c.closed()
	if n := r.sockets.open.Load(); n != 2 {
		t.Errorf("%d sockets are open, want 2: one waits for its turn", n)
	}
	unblock()
	eventually(t, "it is closed", func() bool { return r.sockets.open.Load() == 1 })
	other.ask()
}

// Closes are bounded for all users and for one, and are done in turn.
func TestCloser(t *testing.T) {
	var k closer
	blocked, begun := make(chan struct{}), make(chan string, 1000)
	block := func(name string) func() {
		return func() {
			begun <- name
			<-blocked
		}
	}
	for i := range 100 {
		k.close(1, block(fmt.Sprint("a", i)))
	}
	for range maxUserCloses {
		<-begun
	}
	// Another user's are not held up.
	done := make(chan struct{})
	k.close(2, func() { close(done) })
	<-done
	for uid := uint32(2); uid < 10; uid++ {
		for i := range maxUserCloses {
			k.close(uid, block(fmt.Sprint(uid, i)))
		}
	}
	for range maxCloses - maxUserCloses {
		<-begun
	}
	k.mu.Lock()
	if k.busy != maxCloses {
		t.Errorf("%d at a time, want %d", k.busy, maxCloses)
	}
	k.mu.Unlock()
	select {
	case name := <-begun:
		t.Errorf("%s is one too many", name)
	default:
	}
	k.wait(time.Millisecond) // returns although all are blocked
	close(blocked)
	eventually(t, "all are closed", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.users) == 0 && k.busy == 0 && len(k.order) == 0
	})
	k.wait(time.Hour)
}
