package daemon

import (
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// hasPassrights reports whether a Unix socket can refuse descriptors: since Linux 6.16, and not
// for a program that runs in qemu-user 7.2.
var hasPassrights = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) == nil
})

// withRights has clients at the Unix socket pass descriptors, as all may before
// Linux 6.16.
func withRights(t *testing.T) func(*Config) {
	return func(c *Config) {
		c.Listeners.Control(func(addr net.Addr, fd uintptr) {
			if addr.Network() != "unix" {
				return
			}
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 1); err != nil && err != unix.ENOPROTOOPT {
				t.Fatal(err)
			}
		})
	}
}

// lingerTime is how long the close of a slowSocket blocks, unless the test ends: longer
// than a test may take.
const lingerTime = time.Hour

// slowSocket returns the only descriptor of a TCP socket whose close blocks: it
// has SO_LINGER, and its peer does not read.
func slowSocket(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // resets the connection: a close that blocks returns
		peer.(*net.TCPConn).SetLinger(0)
		peer.Close()
	})
	fd := -1
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	}
	conn.Close()
	if err != nil {
		t.Fatal(err)
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10)
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(lingerTime / time.Second)})
	for b := make([]byte, 64<<10); err == nil; {
		_, err = unix.Write(fd, b)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	return fd
}

// pass sends b with the last descriptor of a slowSocket.
func (c *client) pass(b []byte, flags int) {
	c.t.Helper()
	c.passLast(slowSocket(c.t), b, flags)
}

// passLast sends b with a descriptor and closes that.
func (c *client) passLast(last int, b []byte, flags int) {
	c.t.Helper()
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), b, unix.UnixRights(last), nil, flags) })
	if err != nil { // it was not sent, so our close would block
		unix.SetsockoptLinger(last, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
	unix.Close(last) // the one in the message is the last now
	if err != nil && err != unix.EPIPE {
		c.t.Fatal(err)
	}
}

// A client that passes descriptors is disconnected, whenever it does so, and no
// other client waits for the close of what it has passed.
func TestPassedDescriptors(t *testing.T) {
	request, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: []string{"u.one"}})
	if err != nil {
		t.Fatal(err)
	}
	words, err := pdu.Append(nil, 0, hello)
	if err != nil {
		t.Fatal(err)
	}
	in := func(r *harness) *client { return r.dialTo("unix", r.unix, 0) }
	for _, tt := range []struct {
		name   string
		play   func(r *harness) *client
		silent bool // there is no line in the log
	}{
		{"before CREDS", func(r *harness) *client {
			c := r.connect("unix", r.unix)
			c.recv()
			c.pass(words, 0)
			return c
		}, false},
		{"before the greeting", func(r *harness) *client {
			c := r.connect("unix", r.unix)
			c.pass(words, 0)
			c.recv()
			return c
		}, false},
		{"after CREDS", func(r *harness) *client {
			before := r.counts.Received(pdu.TypeCreds)
			c := in(r)
			testutil.Eventually(r.t, "CREDS are read", func() bool { return r.counts.Received(pdu.TypeCreds) > before })
			c.pass(request, 0)
			return c
		}, false},
		{"after a request", func(r *harness) *client {
			c := in(r)
			c.ask()
			c.pass(request, 0)
			return c
		}, false},
		{"behind a request", func(r *harness) *client {
			c := in(r)
			c.ask()
			c.sendBytes(request)
			c.pass(request, 0)
			if got, err := c.Receive(); err == nil { // it may have been read before
				r.t.Logf("the request: %x", got)
			}
			return c
		}, false},
		{"in the middle of a request", func(r *harness) *client {
			c := in(r)
			c.ask()
			c.sendBytes(request[:13])
			c.pass(request[13:], 0)
			return c
		}, false},
		{"as an urgent byte", func(r *harness) *client {
			c := in(r)
			c.ask()
			c.pass(request[:1], unix.MSG_OOB)
			c.Conn.Write(request[1:]) // it may be disconnected by now
			return c
		}, true}, // some kernels drop the descriptors of an urgent byte, and it is a byte like others
		{"in blocking-read mode", func(r *harness) *client {
			c := in(r)
			r.enter(c)
			c.pass(request, 0)
			return c
		}, false},
		{"as an urgent byte in blocking-read mode", func(r *harness) *client {
			c := in(r)
			r.enter(c)
			c.pass(request[:1], unix.MSG_OOB)
			c.Conn.Write(request[1:])
			return c
		}, true},
		{"behind a request in blocking-read mode", func(r *harness) *client {
			c := in(r)
			r.enter(c)
			c.sendBytes(request)
			c.pass(request, 0)
			if got, err := c.Receive(); err == nil {
				r.t.Logf("the request: %x", got)
			}
			return c
		}, false},
		{"behind nonsense", func(r *harness) *client {
			c := in(r)
			c.ask()
			c.sendBytes(word(0x80000000, 0x7004, 0))
			c.pass(request, 0)
			return c
		}, true},
		{"behind the end", func(r *harness) *client { // the close has it to free
			c := r.connect("unix", r.unix)
			c.recv()
			c.sendBytes(request) // before CREDS
			c.pass(request, 0)
			return c
		}, true},
		{"when it is refused", func(r *harness) *client {
			c := in(r)
			c.ask()
			all := r.sessions.Clients.Infos()
			r.refuse(all[len(all)-1].Number, pdu.ErrnoPermission)
			if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
				r.t.Errorf("got %s", got)
			}
			c.pass(request, 0)
			return c
		}, true},
		{"without descriptors to spare", func(r *harness) *client {
			c := in(r)
			c.ask()
			slow := slowSocket(r.t)
			var had unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
				r.t.Fatal(err)
			}
			defer unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: had.Max}); err != nil {
				r.t.Fatal(err)
			}
			c.passLast(slow, request, 0)
			c.closed()
			return c
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, withRights(t), nil)
			r.awaitStarts()
			other, local := r.dial(), r.dialTo("unix", r.unix, 0)
			other.ask()
			local.ask()
			c := tt.play(r)
			c.closed()
			for range 10 {
				other.ask()
				local.ask()
				r.dial().ask()
				r.dialTo("unix", r.unix, 0).ask()
			}
			if !tt.silent {
				r.awaitLogged(t, "sends file descriptors")
			}
		})
	}
}

// A thousand clients of one user, with a message each whose close blocks, take a
// few threads, and another client is served.
func TestManyPassDescriptors(t *testing.T) {
	const many = 1000
	r := newHarness(t, withRights(t), nil)
	r.awaitStarts()
	other, local := r.dial(), r.dialTo("unix", r.unix, 0)
	other.ask()
	local.ask()
	request, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: []string{"u.one"}})
	if err != nil {
		t.Fatal(err)
	}
	threads := func() int {
		list, _ := os.ReadDir("/proc/self/task")
		return len(list)
	}
	before := threads()
	var wg sync.WaitGroup
	clients := make(chan *client, many)
	for range 8 {
		wg.Go(func() {
			for c := range clients {
				c.pass(request, 0)
			}
		})
	}
	for i := range many {
		c := r.connect("unix", r.unix)
		if i%2 > 0 {
			c.send(hello)
		}
		clients <- c
		if i%100 == 0 {
			other.ask()
			local.ask()
		}
	}
	close(clients)
	wg.Wait()
	testutil.Eventually(t, "all but two are disconnected", func() bool { return r.sessions.NumClients() == 2 })
	for range 10 {
		other.ask()
		local.ask()
		r.dial().ask()
	}
	if n := threads() - before; n > 60 {
		t.Errorf("%d more threads", n)
	}
	r.stop()
}

// A Unix socket that a service manager gives may have been connected to before
// pmcd could say that it takes no descriptors.
func TestPassedBeforeAccept(t *testing.T) {
	path := t.TempDir() + "/sock"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := ln.(*net.UnixListener).SyscallConn()
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	var early [2]net.Conn
	for i := range early {
		if early[i], err = net.Dial("unix", path); err != nil {
			t.Fatal(err)
		}
		defer early[i].Close()
	}
	r := newHarness(t, func(c *Config) {
		c.Listeners.Close()
		if c.Listeners, err = Listen(nil, nil, "", f); err != nil {
			t.Fatal(err)
		}
	}, nil)
	ln.Close()
	var cs [2]*client
	for i, conn := range early {
		conn.SetDeadline(time.Now().Add(testutil.Hangs))
		cs[i] = &client{t, pdutest.New(conn)}
		cs[i].recv()
		cs[i].send(hello)
		cs[i].ask() // SO_PASSCRED is not taken for descriptors
	}
	cs[0].pass([]byte("x"), 0)
	cs[0].closed()
	cs[1].ask()
	r.awaitLogged(t, "sends file descriptors")
}
